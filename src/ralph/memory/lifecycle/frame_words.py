"""English words by which `frames` reads a sentence: what links, limits, denies or measures, and what says little."""

from __future__ import annotations

from ralph.core.tokenize import stem_word

ALTERNATIVES = (
    "tab space",
    "single double",
    "camelcase snake_case kebab-case pascalcase",
    "relative absolute",
    "sync async synchronous asynchronous",
    "merge rebase squash",
    "sqlite postgresql postgres mysql mariadb mongodb oracle",
    "redis memcached memory",
    "npm yarn pnpm bun",
    "pip poetry uv pipenv conda",
    "black ruff yapf autopep8",
    "flake8 pylint ruff",
    "mypy pyright",
    "pytest unittest nose",
    "jest vitest mocha jasmine",
    "eslint biome",
    "webpack vite rollup esbuild parcel",
    "flask django fastapi",
    "react vue svelte angular",
    "rest graphql grpc",
    "github gitlab bitbucket",
    "json yaml toml xml",
    "utc local",
    "stdout stderr",
    "bcrypt argon2 scrypt",
    "ansible terraform pulumi",
    "docker podman",
    "makefile just",
    "ascending descending",
    "uppercase lowercase",
    "server client",
    "english german french spanish",
    "exception value",
    "enabled disabled",
    "public private",
    "optional required",
    "main master develop",
    "before after",
)
"""Words of the field of which one is chosen, so that another one is another value wherever it stands."""
NEGATIONS = frozenset(
    "not never no none without cannot cant dont doesnt isnt arent wont mustnt shouldnt avoid neither forbid forbidden"
    " prohibited".split()
)
PERMISSIONS = frozenset(
    stem_word(word) for word in "may can allow allowed fine ok okay permitted permit welcome".split()
)
"""Words that permit what something else forbids."""
STRESS = frozenset(
    "a an the always all every each any please just also now currently directly we you our your their its must should"
    " shall will do does be been to ever only here".split()
)
"""Words that do not tell what a statement says."""
SCOPES = frozenset("in for on when if during inside within under outside unless except while at of".split())
PLACES = frozenset("in on at inside within under".split())
"""Words before a place, which stand for each other."""
LINKS = frozenset(
    "is are was were as with by from to into onto via through over has have had equal equals at after before in"
    " on".split()
)
"""Words after which a value follows."""
INSTRUCTING = frozenset(
    "add apply avoid build cache call catch check choose commit compile configure create define delete deploy document"
    " edit end escape export fetch format generate give handle ignore import include indent install keep limit log make"
    " mark merge mock move name open pass pin place prefer prefix publish push put quote raise read rebase release"
    " remove rename render retry return reuse review run save send set ship skip sort split squash start stop store"
    " tag test throw update use validate verify wait wrap write".split()
)
SPELLED = {
    word: str(number)
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
IRREGULAR = {"kept": "keep", "built": "build", "ran": "run", "wrote": "write", "written": "write", "sent": "send"}
LIGHT = frozenset("use need require have has add come get take support".split())
"""Verbs that say little beside what they are said of."""
ENVIRONMENTS = frozenset(
    map(
        stem_word,
        "production prod staging development dev sandbox preview demo ci locally linux windows macos mac android"
        " ios".split(),
    )
)
"""Where something holds, so that something else may hold elsewhere."""
BOUNDS = {
    **dict.fromkeys(("most", "maximum", "max", "below", "under", "within", "up", "exceed"), "most"),
    **dict.fromkeys(("least", "minimum", "min", "above", "over"), "least"),
}
"""Words before a figure that say that it is the highest or the lowest one."""
BEFORE_FIGURES = (
    LINKS | BOUNDS.keys() | frozenset("port version limit cap only exactly about need require take use".split())
)
"""Words after which a figure is a value, rather than part of a name."""
DIMENSIONS = {
    stem_word(unit): units.split()[0]
    for units in (
        "second millisecond minute hour day week month year ms s m h d min sec",
        "byte kb mb gb tb kib mib gib",
        "px",
        "character char column",
        "line",
    )
    for unit in units.split()
}
"""Units, and what they measure."""
AFTER_FIGURES = frozenset((*DIMENSIONS, "or", "approv", "newer", "later"))
