"""The client's side of a push: what is sent in which order, and what the answers mean."""
