"""One reader and writer for each kind of file. Pure: text in, records out."""
