"""The messages of tasks: their headers and routes, and the code that publishes, parks and moves them."""
