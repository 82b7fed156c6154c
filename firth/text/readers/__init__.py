"""Files of every format → documents, records, tagged sentences and questions; compression and decoding of bytes."""
