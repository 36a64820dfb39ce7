"""The code of a worker's main process, which receives messages and sees the end of each task."""
