"""`python -m maple.importers`: converts files, writes lists, and says on standard error what became of each part."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from maple.importers import (
    FaucetImport,
    Imported,
    InputError,
    NotCovered,
    Place,
    Report,
    from_aerleon,
    from_faucet,
    from_kubernetes,
)
from maple.importers._document import file_name
from maple.importers._yaml import write

COVERED, BAD_INPUT, NOT_COVERED = 0, 1, 3


def main(argv: Sequence[str]) -> int:
    """Converts the files that the arguments name.

    :return: 0 if all of them is covered, 3 if something is not (then nothing is written, unless `--lenient` is given),
        1 for bad input.
    """
    options = parser().parse_args(argv)
    report = Report()
    try:
        results = [*convert(options, report)]
        for result in results:
            report.findings += result.report.findings
        if report.looser_without:
            print(report, file=sys.stderr)
            print("maple: nothing is written, since the rest would be looser than the source", file=sys.stderr)
            return NOT_COVERED
        if report.not_covered and not options.lenient:
            print(report, file=sys.stderr)
            print(
                "maple: something is not covered, and nothing is written; --lenient converts the rest", file=sys.stderr
            )
            return NOT_COVERED
        files = [file for result in results for file in outputs(result)]
        save(files, options.output)
    except (InputError, ImportError, OSError) as error:
        print(f"maple: {error}", file=sys.stderr)
        return BAD_INPUT
    print(report, file=sys.stderr)
    return NOT_COVERED if report.not_covered else COVERED


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog="maple acl import",
        description="Converts lists that exist into access lists of Maple. The report goes to standard error.",
        epilog="Exit status: 0 all is covered, 3 something is not (nothing is written without --lenient), 1 bad input.",
    )
    found.add_argument("source", choices=("aerleon", "kubernetes", "faucet"), help="the language of the files")
    found.add_argument("files", nargs="+", metavar="FILE", help="what to convert; of kubernetes all files together")
    text = "a folder, or for one list a file that ends in .yaml; without it lists go to standard output"
    found.add_argument("-o", "--output", type=Path, metavar="OUT", help=text)
    found.add_argument("--definitions", metavar="DIR", help="aerleon: the folder with networks and services")
    text = (
        "aerleon: the folder that names of included files begin at; otherwise the nearest one above that has them all"
    )
    found.add_argument("--base-directory", metavar="DIR", help=text)
    text = "kubernetes: take packets to these ports for replies, such as 32768-60999; looser than the source"
    found.add_argument("--client-ports", type=port_range, metavar="FIRST-LAST", help=text)
    found.add_argument("--lenient", action="store_true", help="convert the rest where something is not covered")
    return found


def port_range(text: str) -> tuple[int, int]:
    """The first and the last port of `FIRST-LAST`."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= 65535):
        raise argparse.ArgumentTypeError(f"two ports from 1 to 65535, such as 32768-60999, not {text!r}")
    return int(first), int(last)


def convert(options: argparse.Namespace, report: Report) -> Sequence[Imported]:
    """The result of each file. What a file's own conversion refuses is in the report then."""
    files: list[str] = options.files
    if options.source == "aerleon" and options.definitions is None:
        raise InputError(Place("--definitions"), "aerleon needs the folder with networks and services")
    if options.source != "aerleon" and options.base_directory is not None:
        raise InputError(Place("--base-directory"), "is for aerleon alone")
    if options.source != "kubernetes" and options.client_ports is not None:
        raise InputError(Place("--client-ports"), "is for kubernetes alone")
    results: list[Imported] = []
    for part in [files] if options.source == "kubernetes" else [[file] for file in files]:
        try:
            if options.source == "kubernetes":
                results.append(from_kubernetes(part, client_ports=options.client_ports, lenient=options.lenient))
            elif options.source == "faucet":
                results.append(from_faucet(part[0], lenient=options.lenient))
            else:
                results.append(
                    from_aerleon(part[0], options.definitions, base=options.base_directory, lenient=options.lenient)
                )
        except NotCovered as refused:
            report.findings += refused.report.findings
    return results


def outputs(result: Imported) -> list[tuple[str, str]]:
    """Names and texts of the files that a result makes."""
    files = [(f"{file_name(str(document['name']))}.yaml", write(document)) for document in result.documents]
    if isinstance(result, FaucetImport):
        files.append((f"{result.name}.json", json.dumps(result.network, indent=2) + "\n"))
        files.append((f"{result.name}.py", result.policy))
    return files


def save(files: list[tuple[str, str]], output: Path | None) -> None:
    """Writes the files into a folder, one list into a file, or the lists to standard output."""
    if output is None:
        sys.stdout.write("---\n".join(text for name, text in files if name.endswith(".yaml")))
        return
    names = [name for name, _ in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(Place(twice), "two lists have this name")
    if output.suffix in (".yaml", ".yml"):
        if len(files) != 1:
            raise InputError(Place(str(output)), f"a folder is needed for {len(files)} files: {', '.join(names)}")
        output.write_text(files[0][1], encoding="utf-8")
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files:
        (output / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
