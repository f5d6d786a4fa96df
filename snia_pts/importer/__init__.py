"""The verb ``import``: files of other tools become runs; each tool has an importer in ``registries.IMPORTERS``."""
