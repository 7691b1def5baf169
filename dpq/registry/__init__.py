"""The registry: the list of the names of all queues of a server, and questions to all of them."""
