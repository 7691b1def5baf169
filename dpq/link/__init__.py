"""Sockets: connections to servers, clusters and Sentinels, and waiting on them."""
