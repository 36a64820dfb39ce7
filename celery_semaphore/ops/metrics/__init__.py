"""Export the state of all semaphores, and what an autoscaler must know, by one process for the whole cluster."""
