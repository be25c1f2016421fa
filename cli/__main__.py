"""`python -m tq_hw.cli` is `tq-hw`."""

from tq_hw.cli.start import main

if __name__ == "__main__":
    main()
