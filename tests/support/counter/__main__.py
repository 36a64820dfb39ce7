import argparse

from .server import serve

parser = argparse.ArgumentParser(prog="python -m tests.support.counter")
parser.add_argument("--port", type=int, required=True)
serve(parser.parse_args().port)
