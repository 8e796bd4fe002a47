"""Checkpoints: a folder with weights, a record and a certificate."""
