"""Files → records: txt, jsonl, csv, tsv, parquet, CoNLL, SQuAD; compression and text encodings."""
