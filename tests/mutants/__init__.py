"""The library with one wrong idea in it, many times: the tests must notice each."""
