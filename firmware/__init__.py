"""Sources in C: the driver, and the runtime of the soft core. An installation has them as data."""
