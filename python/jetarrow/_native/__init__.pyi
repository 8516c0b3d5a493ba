"""Stubs of the native module, in files named as those of rust/python/src. The package is empty at run time."""
