"""Naive labels from the prose definitions, for tests of tasks and of their per-example baselines.

Each reads the names of the tokens so far, and says the name of the label at the last of them.
"""


def hopped(letters, hops):
    """Where a string's last letter leads: look back, step on, repeat."""
    place = len(letters) - 1
    for _ in range(hops):
        earlier = [i for i in range(place) if letters[i] == letters[place]]
        if not earlier:
            return "~"
        place = earlier[-1] + 1
    return letters[place]


def p_hop(names, task):
    """The instruction has no label."""
    hops = int(names[0].removeprefix("HOPS"))
    return hopped(names[1:], hops) if len(names) > 1 else "-"


def selective_copy(names, task):
    """Cross the blanks out, count the blanks after COPY."""
    if "COPY" not in names[:-1]:
        return "-"
    cue = names.index("COPY")
    return [name for name in names[:cue] if name != "."][len(names) - cue - 2]


def noisy_recall(names, task):
    """Look the last key up among the pairs before it."""
    *earlier, token = names
    if token[0] != "k" or not (task.supervision == "every" or earlier[-1:] == ["QUERY"]):
        return "-"
    memory = dict(zip(earlier[0::2], earlier[1::2], strict=False))
    return memory.get(token, "-")


WIDTHS = {"word": 1, "number": 7, "hex": 8}


def needles_of(names, task):
    """Keys and values of the needles in a haystack, as text."""
    width = WIDTHS[task.key]
    found = []
    for at in [i for i, name in enumerate(names) if name == "NEEDLE"]:
        key, marker = names[at + 1 : at + 1 + width], names[at + 1 + width]
        assert marker == "IS"
        found.append((tuple(key), names[at + 2 + width :][: WIDTHS[task.value]]))
    return found


def needle(names, task):
    """The value of the queried key, as far as blanks were given."""
    if names[-1] != "_":
        return "-"
    query = names.index("QUERY")
    key = tuple(names[query + 1 : query + 1 + WIDTHS[task.key]])
    return dict(needles_of(names[:query], task))[key][names.count("_") - 1]


def followed(names):
    """What a queried variable holds, and how many copies away that is."""
    *assigned, _, held = names
    table = dict(zip(assigned[0::2], assigned[1::2], strict=True))
    hops = -1
    while held[0] == "x":
        held, hops = table[held], hops + 1
    return held, hops


def multi_hop_variables(names, task):
    """Look the queried variable up until a value comes."""
    return followed(names)[0] if names[-2:-1] == ["QUERY"] else "-"


def read_brackets(names):
    """Whether a word is valid, and its open brackets, by a stack of names."""
    stack = []
    for name in names:
        if name[0] == "(":
            stack.append(name[1:])
        elif not stack or stack.pop() != name[1:]:
            return False, stack
    return True, stack


def dyck(names, task):
    """The bracket to close next, or whether all match."""
    valid, stack = read_brackets(names)
    if task.question == "valid":
        return "OK" if valid else "BAD"
    assert valid
    return f"){stack[-1]}" if stack else "."


def arithmetic_value(tokens):
    """The integer value of a text, by recursive descent; consumes the tokens."""
    total, sign = 0, 1
    while True:
        product = _factor(tokens)
        while tokens[:1] == ["*"]:
            tokens.pop(0)
            product *= _factor(tokens)
        total += sign * product
        if not tokens or tokens[0] == ")":
            return total
        sign = {"+": 1, "-": -1}[tokens.pop(0)]


def _factor(tokens):
    token = tokens.pop(0)
    if token != "(":
        return int(token)
    inner = arithmetic_value(tokens)
    assert tokens.pop(0) == ")"
    return inner


def modular_arithmetic(names, task):
    """The value at the equals sign."""
    if names[-1] != "=":
        return "-"
    tokens = names[:-1]
    result = arithmetic_value(tokens)
    assert not tokens
    return str(result % task.modulus)


LABELS = {
    label.__name__: label
    for label in (
        p_hop,
        selective_copy,
        noisy_recall,
        needle,
        multi_hop_variables,
        dyck,
        modular_arithmetic,
    )
}


def labels_of(row, task):
    """The labels of one row of token ids, by name."""
    names = task.decode(row)
    return [LABELS[task.name](names[: t + 1], task) for t in range(len(names))]
