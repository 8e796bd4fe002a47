"""Circuit-discovery methods: each gets a network and its inputs, never the true circuit, and scores edges."""
