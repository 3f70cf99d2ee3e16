"""Tuples, lists and dicts, to leaves and back."""


def tree_flatten(tree):
    """Leaves in order, and a structure that is equal where two trees have one shape."""
    if isinstance(tree, dict):
        keys, children = list(tree), list(tree.values())
    elif isinstance(tree, (tuple, list)):
        keys, children = None, list(tree)
    else:
        return [tree], "*"
    flat = [tree_flatten(child) for child in children]
    leaves = [leaf for found, _ in flat for leaf in found]
    return leaves, (type(tree).__name__, keys, [spec for _, spec in flat])


def tree_leaves(tree):
    """Leaves in order."""
    return tree_flatten(tree)[0]


def tree_map(function, tree):
    """The same tree with a function called on every leaf."""
    if isinstance(tree, dict):
        return {key: tree_map(function, value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_map(function, child) for child in tree)
    return function(tree)
