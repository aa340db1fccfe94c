"""A PDF and a DOCX, made by the tests."""

from io import BytesIO


def pdf(text: str) -> bytes:
    """A document of one page for each line; its font is one that every reader has."""
    pages = text.split("\n")
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for line in pages:
        words = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252")
        stream = b"BT /F1 12 Tf 72 720 Td (%b) Tj ET" % words
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 %b >> >> >>" % (len(objects), font)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join(kids), len(kids))
    out, places = BytesIO(b""), []
    out.write(b"%PDF-1.4\n")
    for n, one in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (n, one))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    return out.getvalue()


def docx(text: str, *rows: tuple[str, ...]) -> bytes:
    """A paragraph for each line, and a table of these rows."""
    from docx import Document

    document = Document()
    for line in text.split("\n"):
        document.add_paragraph(line)
    if rows:
        table = document.add_table(len(rows), len(rows[0]))
        for n, row in enumerate(rows):
            for m, cell in enumerate(row):
                table.cell(n, m).text = cell
    out = BytesIO()
    document.save(out)
    return out.getvalue()
