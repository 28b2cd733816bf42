"""Importers: lists that exist in other languages become documents in Maple's form (docs/importing.md).

They need PyYAML, and :func:`from_aerleon` needs the package aerleon: ``pip install 'maple-sdn[importers]'``.
"""

from __future__ import annotations

from maple.importers._document import Document, Finding, Imported, InputError, NotCovered, Place, Report
from maple.importers.aerleon import from_aerleon
from maple.importers.faucet import FaucetImport, from_faucet
from maple.importers.kubernetes import from_kubernetes

__all__ = [
    "Document",
    "FaucetImport",
    "Finding",
    "Imported",
    "InputError",
    "NotCovered",
    "Place",
    "Report",
    "from_aerleon",
    "from_faucet",
    "from_kubernetes",
]
