"""A limited task as its app declares and sends it: its class, its options, and what adds our bootsteps to workers."""
