"""A CSV file of the losses, for a spreadsheet."""

from firth.training.loggers import Logger


class Spreadsheet(Logger):
    kind, label = "csv", "CSV"
    about = "A file losses.csv in the folder of the run."

    def __init__(self, run):
        self.file = (run.folder.path / "losses.csv").open("a", buffering=1)
        self.logged = run.logged  # a training that was killed repeats the steps after its checkpoint

    def write(self, line):
        if line["step"] > self.logged:
            self.file.write(f"{line['step']},{line['loss']},{line.get('valid', {}).get('loss', '')}\n")

    def close(self, outcome):
        self.file.close()
