"""`python -m tq_hw` is `tq-hw`."""

from tq_hw.cli.start import main

if __name__ == "__main__":
    main()
