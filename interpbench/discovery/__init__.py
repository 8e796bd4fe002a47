"""Discovery methods: each gets a problem, never the answer, and returns a score for every edge."""
