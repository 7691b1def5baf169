"""Stored records, taken apart and put together as docs/storage.md has them, to damage one."""

COUNTS = ("token", "attempts", "deliveries", "deferrals", "delivery", "again")
SHORT = ("enqueued", "order", "max", "priority")
FULL = (*SHORT, "cost", "wait", "expires", "aging")
NAMES = ("group", "key", "reason", "error")
USUAL = dict(zip(COUNTS, ("0", "0", "0", "0", "-", "0"), strict=True)) | {
    "cost": "1", "wait": "0", "expires": "0", "aging": "0", "key": "", "reason": "", "error": "",
}  # fmt: skip


def read_record(raw: bytes) -> dict[str, str]:
    """The fields of a record by their names.

    `kind` is "q" (short) or "f" (full); `rest` what stands behind the last error and its options,
    the schedule; `payload` what stands behind the record, with its line feed.
    """
    line, has_payload, payload = raw.decode().partition("\n")
    head, *names = line.split("\t")
    words = head.split(" ")
    fields = dict(USUAL)
    if head[0] not in "qf":
        fields |= zip(COUNTS, words[:6], strict=True)
        words = words[6:]
    kind, words[0] = words[0][0], words[0][1:]
    if kind == "q":
        digits = words[0]
        words[:1] = str(int(digits[:11], 16)), f"1{digits[11:26]}", digits[26:] or "10"
    fields |= zip({"q": SHORT, "f": FULL}[kind], words, strict=True)
    fields |= zip(NAMES, names, strict=False)
    rest = "\t".join(names[len(NAMES) :])
    return fields | {"kind": kind, "rest": rest, "payload": has_payload + payload}


def full_record(fields: dict[str, str]) -> bytes:
    """The same fields as a full record; `kind` is not asked for."""
    counts = " ".join(fields[name] for name in COUNTS)
    words = " ".join(fields[name] for name in FULL)
    names = "\t".join(fields[name] for name in NAMES)
    rest = f"\t{fields['rest']}" if fields["rest"] else ""
    return f"{counts} f{words}\t{names}{rest}{fields['payload']}".encode()
