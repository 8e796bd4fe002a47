"""Files of scores and circuits in the forms of other projects: one file a form.

A form is a class with a reader and a writer that `@form` registers under a name; a new file in this folder
that declares one is all that it takes. Nothing that is read is executed.
"""
