# SPDX-License-Identifier: Apache-2.0
"""What a run of run.py found, on disk."""


class Report:
    """build/mutants/MODULE.md: a row for the table of docs/mutants.md, and the survivors."""

    def __init__(self, folder, module):
        self.module = module
        self.path = folder / f"{module.replace('/', '-')}.md"

    def write(self, tried, places, seed, survivors):
        killed = tried - len(survivors)
        share = 100 * killed / tried if tried else 0
        rows = [f"| {self.module} | {tried} of {places} | {seed} | {killed} | {share:.0f} % |", ""]
        rows += [f"- {site}" for site in sorted(survivors, key=lambda site: (site.file, site.start))]
        self.path.write_text("\n".join(rows) + "\n")
        print("\n" + "\n".join(rows))

    def read(self):
        """How many were tried, of how many places, by which seed, and the survivors as they were printed."""
        lines = self.path.read_text().splitlines()
        _, tried, seed, *_ = (cell.strip() for cell in lines[0].strip("|").split("|"))
        tried, places = tried.split(" of ")
        return int(tried), int(places), seed, {line[2:] for line in lines if line.startswith("- ")}
