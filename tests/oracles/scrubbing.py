"""Causal scrubbing of a transformer as the literal recursion: one sample, one path, one component at a time.

It takes the inputs that were drawn, and nothing else, from the project.
"""

from tests.oracles.transformer import run


def before(image, names):
    """Returns which of a network's writers a reader reads, in order."""
    if image == "logits":
        return names
    layer = int(image.split("<")[0].split(".")[0][1:])
    below = [name for name in names if name == "embed" or int(name.split(".")[0][1:]) < layer]
    return below if image[0] == "a" else below + [name for name in names if name.startswith(f"a{layer}.")]


def scrubbed_logits(model, rows, hypothesis, draws, classes):
    """Returns the logits of each sample, a list of vectors, one for each position.

    Args:
        model: the network.
        rows: the inputs, lists of token ids.
        hypothesis: the hypothesis.
        draws: which inputs are drawn, by path.
        classes: the classes of inputs, by claim.
    """
    clean = [run(model, row)[1] for row in rows]
    claims = hypothesis.claims
    split = any("<" in claim.image for claim in claims.values())
    names = list(clean[0])

    def read_by(claim, image, path, current):
        """Returns what a reader sees of each writer, for each sample: outputs of a run, by writer."""
        important = {claims[parent].image: parent for parent in hypothesis.parents(claim)}
        seen = [{} for _ in current]
        for writer in before(image, names):
            if writer in important:
                name = important[writer]
                found = value(
                    name, f"{path}/{name}", draws.agreeing(f"{path}/{name}", classes[name], current)
                )
            else:
                found = [clean[other][writer] for other in draws.other(path, current, writer)]
            for sample, vectors in enumerate(found):
                seen[sample][writer] = vectors
        return seen

    def value(claim, path, current):
        """Returns what a claim's node writes, for each sample: a vector for each position."""
        image = claims[claim].image
        if image == "embed":
            return [clean[place]["embed"] for place in current]
        inputs = {}
        if image[0] == "a" and split:
            own = {claims[parent].image: parent for parent in hypothesis.parents(claim)}
            for slot in "qkv":
                reader = f"{image}<{slot}>"
                if reader in own:
                    name = own[reader]
                    further = f"{path}/{name}"
                    inputs[reader] = read_by(
                        name, reader, further, draws.agreeing(further, classes[name], current)
                    )
                else:
                    other = draws.other(path, current, reader)
                    inputs[reader] = [{w: clean[place][w] for w in before(reader, names)} for place in other]
        elif image[0] == "a":
            seen = read_by(claim, image, path, current)
            inputs = {f"{image}<{slot}>": seen for slot in "qkv"}
        else:
            inputs = {image: read_by(claim, image, path, current)}
        made = []
        for sample in range(len(current)):
            routes = {
                (writer, reader, position): {writer: vectors}
                for reader, seen in inputs.items()
                for writer, vectors in seen[sample].items()
                for position in range(len(vectors))
            }
            logits, outputs = run(model, rows[current[sample]], routes=routes)
            made.append(logits if image == "logits" else outputs[image])
        return made

    return value(hypothesis.output, hypothesis.output, draws.root)


def scrubbed_pools(model, rows, hypothesis, classes, draws):
    """Returns the logits of each sample, a list of vectors, one for each position, by pools.

    Args:
        model: the network.
        rows: the inputs, lists of token ids.
        hypothesis: the hypothesis.
        classes: the classes of inputs, by claim.
        draws: which entries and inputs are drawn, by claim.
    """
    clean = [run(model, row)[1] for row in rows]
    claims, names, known = hypothesis.claims, list(clean[0]), {}
    split = any("<" in claim.image for claim in claims.values())

    def drawn(claim, parent, entry):
        """Returns the value of a parent that an entry of a claim reads."""
        return value(parent, draws.agreeing(claim, parent, classes[parent])[entry])

    def read_by(claim, image, entry):
        """Returns what an entry sees of each writer."""
        important = {claims[parent].image: parent for parent in hypothesis.parents(claim)}
        return {
            writer: drawn(claim, important[writer], entry)
            if writer in important
            else clean[draws.other(claim, writer)[entry]][writer]
            for writer in before(image, names)
        }

    def value(claim, entry):
        if (claim, entry) not in known:
            known[claim, entry] = computed(claim, entry)
        return known[claim, entry]

    def computed(claim, entry):
        """Returns what an entry of a claim is: vectors by position, of an input of a head by writer, too."""
        image, place = claims[claim].image, draws.inputs(claim)[entry]
        if image == "embed":
            return clean[place]["embed"]
        if "<" in image:
            return read_by(claim, image, entry)
        if image[0] == "a" and split:
            own = {claims[parent].image: parent for parent in hypothesis.parents(claim)}
            inputs = {}
            for reader in [f"{image}<{slot}>" for slot in "qkv"]:
                other = clean[draws.other(claim, reader)[entry]]
                inputs[reader] = drawn(claim, own[reader], entry) if reader in own else other
        else:
            readers = [f"{image}<{slot}>" for slot in "qkv"] if image[0] == "a" else [image]
            inputs = dict.fromkeys(readers, read_by(claim, image, entry))
        routes = {
            (writer, reader, position): {writer: seen[writer]}
            for reader, seen in inputs.items()
            for writer in before(reader, names)
            for position in range(len(rows[place]))
        }
        logits, outputs = run(model, rows[place], routes=routes)
        return logits if image == "logits" else outputs[image]

    return [value(hypothesis.output, sample) for sample in range(len(draws.inputs(hypothesis.output)))]


def scrubbed_positions(model, rows, hypothesis, classes, draws):
    """Returns the logits of each input, a list of vectors, one for each position.

    Args:
        model: the network.
        rows: the inputs, lists of token ids.
        hypothesis: the hypothesis, with the inputs of heads.
        classes: the classes of inputs, by claim and position.
        draws: which inputs are drawn, by claim.
    """
    clean = [run(model, row)[1] for row in rows]
    claims, names, known = hypothesis.claims, list(clean[0]), {}

    def read_by(name, image, query, position, place):
        """Returns what a reader sees of each writer at a position, for the query of an input."""
        parents = hypothesis.parents(name) if name in claims else ()
        important = {claims[parent].image: parent for parent in parents}
        seen = {}
        for writer in before(image, names):
            if writer in important:
                parent = important[writer]
                queries = image.endswith(("<k>", "<v>"))
                drawn = draws.agreeing(name, parent, classes[parent], queries)
                other = drawn[query][position][place] if queries else drawn[position][place]
                seen[writer] = {position: value(parent, position, other)}
            else:
                seen[writer] = clean[draws.other(name)[query][place]][writer]
        return seen

    def value(claim, position, place):
        """Returns what a claim's node writes at a position if the input is the one at a place."""
        image = claims[claim].image
        if image == "embed":
            return clean[place]["embed"][position]
        if (claim, position, place) not in known:
            routes = {}

            def put(name, reader, at):
                for writer, vectors in read_by(name, reader, position, at, place).items():
                    routes[writer, reader, at] = {writer: vectors}

            if image[0] == "a":
                own = {claims[parent].image: parent for parent in hypothesis.parents(claim)}
                for slot in "qkv":
                    reader = f"{image}<{slot}>"
                    name = own.get(reader, f"{claim}/{reader}")
                    for at in [position] if slot == "q" else range(len(rows[place])):
                        put(name, reader, at)
            else:
                put(claim, image, position)
            logits, outputs = run(model, rows[place], routes=routes)
            known[claim, position, place] = (logits if image == "logits" else outputs[image])[position]
        return known[claim, position, place]

    length = len(rows[0])
    return [[value(hypothesis.output, at, place) for at in range(length)] for place in range(len(rows))]
