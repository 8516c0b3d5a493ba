LEFT_OUT = {}
