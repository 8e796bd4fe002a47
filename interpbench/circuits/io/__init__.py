"""Files of scores and circuits in the formats of other projects; each format has a file in this folder.

A format (here called a form) is a class with a reader and a writer, which `@form` registers under a name. A
new format is added as a new file in this folder. Nothing that is read is executed.
"""
