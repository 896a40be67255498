"""In a render worker, MuPDF gets faults that a document's title triggers. Python loads this module by itself."""

import sys

if "inboxd.rooms.render.worker" in sys.orig_argv:
    import os
    import signal

    import pymupdf

    load_page, get_pixmap = pymupdf.Document.load_page, pymupdf.Page.get_pixmap

    def load(document, number, *args, **kwargs):
        if document.metadata["title"] == f"loading page {number + 1} kills":
            os.kill(os.getpid(), signal.SIGSEGV)
        return load_page(document, number, *args, **kwargs)

    def draw(page, *args, **kwargs):
        if page.parent.metadata["title"] == f"drawing page {page.number + 1} kills":
            os.kill(os.getpid(), signal.SIGSEGV)
        return get_pixmap(page, *args, **kwargs)

    pymupdf.Document.load_page, pymupdf.Page.get_pixmap = load, draw
