"""The native module's stub, in files named as those of rust/src/py: there is nothing here when a program runs."""
