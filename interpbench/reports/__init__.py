"""Tables, pictures, reports."""
