"""The stand-in driver library: real pynvml on the path of a test, over a scripted or simulated driver in C."""
