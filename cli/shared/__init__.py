"""Options, files, arrays and progress that several commands share."""
