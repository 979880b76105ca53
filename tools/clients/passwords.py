# needs: credsweeper
"""Find passwords in source files: recurrent networks over letters, in this process and in a pool of spawned ones."""

import json
from pathlib import Path

from credsweeper.app import CredSweeper
from credsweeper.file_handler.files_provider import FilesProvider

TEXT = 'password = "GkXf3w9t0{0}!Qs"\ntoken: str = "ghp_1234567890abcdefABCDEF1234567890abc{0}"\npw = "qwerty{0}X9"\n'


def main() -> None:
    folder = Path("searched")
    folder.mkdir(exist_ok=True)
    for number in range(4):
        (folder / f"part{number}.py").write_text(TEXT.format(number), encoding="utf-8")
    for processes in (1, 2):
        sweeper = CredSweeper(json_filename="found.json", pool_count=processes, sort_output=True)
        print(processes, sweeper.run(content_provider=FilesProvider([str(folder)])))
        for found in sorted(json.loads(Path("found.json").read_text(encoding="utf-8")), key=str):
            likely = found["ml_probability"]
            print(found["rule"], found["line_data_list"][0]["value"], likely if likely is None else f"{likely:.4f}")


if __name__ == "__main__":
    main()
