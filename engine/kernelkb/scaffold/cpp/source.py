"""Kernels, launchers and functions of tensors in C++ and CUDA text; uncertain roles are flagged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.model.base import Target
from kernelkb.scaffold.cpp.array_shapes import trace_arrays
from kernelkb.scaffold.cpp.build_flags import list_members
from kernelkb.scaffold.cpp.element_types import DTYPES, list_number_structures
from kernelkb.scaffold.cpp.functions import (
    TORCH_KINDS,
    MadeTensor,
    SourceFacts,
    add_macros,
    build_function,
    collect_made,
    find_style,
    is_tensor,
    read_facts,
)
from kernelkb.scaffold.cpp.objects import list_host_memory
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    LaunchSite,
    find_launch_sites,
    get_part,
    get_text,
    has_const,
    iter_calls,
    iter_declarations,
    iter_declarators,
    iter_nodes,
    iter_values,
    parse_c,
)
from kernelkb.scaffold.draft import (
    Function,
    Parameter,
    SourceKind,
    SourceSummary,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_CUDA_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*cuda", re.MULTILINE | re.IGNORECASE)
_KERNEL_WORDS = (
    *("__global__", 'extern "C"', "PYBIND11_MODULE", "TORCH_LIBRARY", "TVM_FFI_", "Tensor"),
    "<<<",
)
_MODULES = (
    "PYBIND11_MODULE",
    *("TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL"),
    *("STABLE_TORCH_LIBRARY", "STABLE_TORCH_LIBRARY_FRAGMENT", "STABLE_TORCH_LIBRARY_IMPL"),
)
_ARRAYS = ("input", "output")
_NUMBER_TYPE = re.compile(
    r"bool|dim3|(?:float|double|u?int|half)[234]|\w*(?:float|double|half)|T|scalar_t|__nv_bfloat16"
    r"|[\w ]*(?:int|long|short|size_t|char|int\d+_t)"
)
"""A number's type, and no structure of the file's own."""
_HOST_MEMORY = ("cudaMalloc", "cudaMemcpy", "cudaMallocManaged", "cudaMallocHost", "malloc")


def summarize_c_source(name: str, text: str, headers: Sequence[str] = ()) -> SourceSummary | None:
    """Return the kernels and launchers of a source file, None where it holds neither.

    Args:
        name: The file's name; its suffix decides how it is read.
        text: What the file holds.
        headers: What the files hold that it includes: only macros and the names of types count.
    """
    if not any(word in text for word in _KERNEL_WORDS):  # most files; spares the parsing
        return None
    root = parse_c(add_macros(text, headers))
    declarations = list(iter_declarations(root))
    defined = {each.name: each for each in declarations if each.body is not None}
    is_cuda = name.endswith((".cu", ".cuh")) or _CUDA_INCLUDE.search(text) or _names_cuda(root)
    target: Target = "cuda" if is_cuda else "cpu"
    sites = find_launch_sites(declarations)
    tensor = _list_tensor_functions(root, declarations, sites)
    if tensor:
        missing = _list_missing(root, declarations)
        kind: SourceKind = "tvm-ffi" if tensor[0].style == "tvm-ffi" else "torch-extension"
        return SourceSummary(
            kind, tuple(tensor), target, "main" in defined, missing_functions=tuple(missing)
        )
    members = [member for each in (text, *headers) for member in list_members(each).items()]
    objects = {name for name, is_static in members if not is_static}
    values = {v for one in (text, *headers) for v in list_number_structures(parse_c(one))}
    functions, inner, hosts = _list_pointer_functions(declarations, sites, objects, values)
    if not functions:
        return None
    has_main = "main" in defined
    summary = SourceSummary("cuda", tuple(functions), target, has_main)
    return summary._replace(inner=tuple(inner), of_host=tuple(hosts))


def summarize_included(text: str, headers: Sequence[str]) -> SourceSummary | None:
    """Return the functions of headers that a source instantiates, or calls; None without one."""
    texts = [each for each in headers if any(word in each for word in _KERNEL_WORDS)]
    every = [each for one in texts for each in iter_declarations(parse_c(one))]
    if not every:
        return None
    bodies = {each.name: each for each in every if each.body is not None}
    own = list(iter_declarations(parse_c(text)))
    sites = find_launch_sites([*own, *every])
    functions = [
        build_function(bodies[name])._replace(launches=_list_launches(bodies[name], bodies, sites))
        for name in read_facts(add_macros(text, headers)).instantiations
        if name in bodies
    ]
    if not functions:
        words = set(re.findall(r"\w+", text))
        plain = [each for each in every if find_style(each) == "pointers"]
        named = _list_pointer_functions(plain, sites)[0]
        functions = [each for each in named if each.name in words] or named
    has_main = any(each.name == "main" and each.body is not None for each in own)
    return SourceSummary("cuda", tuple(functions), "cuda", has_main) if functions else None


def _list_tensor_functions(
    root: Node, declarations: list[Declaration], sites: list[LaunchSite]
) -> list[Function]:
    """List the functions of tensors that a module exports, else those that launch a kernel."""
    bindings = [*_list_bindings(declarations), *_list_ffi_exports(root)]
    exported = list(dict.fromkeys(bound or name for name, bound in bindings))
    bodies = {each.name: each for each in declarations if each.body is not None}
    launches = {name: _list_launches(each, bodies, sites) for name, each in bodies.items()}
    tensor = [each for each in bodies.values() if find_style(each) != "pointers"]
    chosen = [each for each in tensor if each.name in exported]
    launching = [each for each in tensor if launches[each.name] and not each.template]
    called = {name for each in launching for name, _ in iter_calls(each.body)}
    chosen = chosen or [each for each in launching if each.name not in called] or launching
    if not chosen and not (sites and any(each.is_global for each in bodies.values())):
        # Functions that another file exports: of a library, or that launch through a macro.
        inner = {name for each in tensor for name, _ in iter_calls(each.body)}
        chosen = [each for each in tensor if each.name not in inner and not each.template]
    functions = [read_tensor_function(each, declarations, launches[each.name]) for each in chosen]
    elsewhere = [bound or name for name, bound in bindings if (bound or name) not in bodies]
    return [*functions, *(Function(name, style="bound") for name in dict.fromkeys(elsewhere))]


def complete_function(function: Function, text: str, headers: Sequence[str]) -> Function:
    """Return a function of tensors with what the kernels in its file's headers show of it."""
    own = list(iter_declarations(parse_c(add_macros(text, headers))))
    inner = [d for each in headers for d in iter_declarations(parse_c(each))]
    found = next(d for d in own if d.name == function.name and d.line == function.line)
    every = [*own, *inner]
    bodies = {each.name: each for each in reversed(every) if each.body is not None}
    launches = _list_launches(found, bodies, find_launch_sites(every))
    return read_tensor_function(found, every, launches)


def _list_launches(
    function: Declaration, bodies: Mapping[str, Declaration], sites: list[LaunchSite]
) -> tuple[str, ...]:
    """List the kernels that a function starts, itself or through functions of the file."""
    seen, pending, found = {function.name}, [function], []
    while pending:
        each = pending.pop()
        found += [site.kernel for site in sites if site.host.name == each.name]
        for name, _ in iter_calls(each.body):
            if name in bodies and name not in seen:
                seen.add(name)
                pending.append(bodies[name])
    return tuple(dict.fromkeys(found))


def _list_missing(root: Node, declarations: Sequence[Declaration]) -> list[str]:
    """List the functions that a file uses, or its module exports, and does not define."""
    counts = Counter(get_text(node) for node in iter_nodes(root) if node.type == "identifier")
    used = [each.name for each in declarations if each.body is None and counts[each.name] > 1]
    used += [bound for _, bound in _list_bindings(declarations) if bound]
    defined = {each.name for each in declarations if each.body is not None}
    return [name for name in dict.fromkeys(used) if name not in defined]


def _list_pointer_functions(
    declarations: list[Declaration],
    sites: list[LaunchSite],
    members: Collection[str] = (),
    values: Collection[str] = (),
) -> tuple[list[Function], list[Function], list[Function]]:
    """List launchers, then the kernels that none of them starts; and launchers that others call.

    And functions that launch with copies of the host's arrays that they take.

    Args:
        declarations: The functions of a file.
        sites: Its launches.
        members: Functions that need an object, as ``Grid::fit``: they are no launchers.
        values: Structures of numbers, which launchers take by value.
    """
    bodies = _index_bodies(declarations, sites)
    launchers, others = [], []
    for each in bodies.values():
        launches = _list_launches(each, bodies, sites)
        function = build_function(each)
        takes_arrays = any(p.role in _ARRAYS for p in function.parameters)
        is_member = f"{each.scope}{each.name}".split("::")[-2:] in [m.split("::") for m in members]
        is_launcher = not is_member and _is_launcher(each, values)
        is_called = (each.is_extern and takes_arrays) or (launches and is_launcher)
        is_of_host = bool(list_host_memory(each, bodies, launches=bool(launches)))
        if is_called and not is_of_host:
            launchers.append(function._replace(launches=launches))
        elif launches and takes_arrays and is_of_host and not is_member:
            others.append(function._replace(launches=launches))
    names = {launcher.name for launcher in launchers}
    called_by = [each for each in bodies.values() if each.name in names]
    inner = {name for each in called_by for name, _ in iter_calls(each.body)}
    outer = [f for f in launchers if f.name not in inner or bodies[f.name].is_extern] or launchers
    # Of a launcher that takes structures, only the kernels can be called with arrays.
    plain = [f for f in outer if all(p.dtype for p in f.parameters if p.role in _ARRAYS)]
    started = {kernel for launcher in plain for kernel in launcher.launches}
    kernels = [each for each in bodies.values() if each.is_global and each.name not in started]
    called = [each for each in launchers if each not in outer]
    return [*outer, *(build_function(each) for each in kernels)], called, others


def _index_bodies(
    declarations: list[Declaration], sites: list[LaunchSite]
) -> dict[str, Declaration]:
    """Map each name to its function: of two, as for CPU and GPU, to that which launches."""
    hosts = [site.host for site in sites]
    bodies: dict[str, Declaration] = {}
    for each in declarations:
        if each.body is not None and bodies.get(each.name) not in hosts:
            bodies[each.name] = each
    return bodies


def _is_launcher(declaration: Declaration, values: Collection[str]) -> bool:
    """Whether a host function can be called with arrays of the GPU: it copies none itself."""
    if declaration.is_global or declaration.name == "main" or declaration.body is None:
        return False
    function = build_function(declaration)
    if not any(p.role in ("input", "output") for p in function.parameters):
        return False
    numbers = [p.type.rstrip("*") for p in function.parameters if p.role == "number"]
    known = all(_NUMBER_TYPE.fullmatch(n) or n.split(" ")[-1] in values for n in numbers)
    return known and not any(name in _HOST_MEMORY for name, _ in iter_calls(declaration.body))


def _names_cuda(root: Node) -> bool:
    """Whether code names anything of CUDA, other than to refuse its tensors: ``!x.is_cuda()``."""
    for node in iter_nodes(root):
        if node.type in ("kernel_call_syntax", "__global__"):
            return True
        if node.type.endswith("identifier") and "cuda" in get_text(node).lower():
            call = node.parent and node.parent.parent
            refusal = call and call.parent
            if refusal is None or not get_text(refusal).startswith("!"):
                return True
    return False


_WRAPPER = re.compile(r"^(?:TORCH_(?:FN|BOX)|(?:torch::)?wrap_pybind_function)\s*\(\s*")
_NO_FUNCTION = re.compile(
    r"[\"R]|(?:py|pybind11)::|(?:c10|torch|at)::(?:DispatchKey::)?k?[A-Z]\w*$|\{"
)
"""Arguments of ``m.def`` beside the function: its text, names of arguments, a dispatch key."""


def _list_bindings(declarations: Sequence[Declaration]) -> list[tuple[str, str]]:
    """List the Python and the C name of each ``m.def``; the latter empty for a lambda."""
    modules = (each for each in declarations if each.name in _MODULES)
    calls = [call for module in modules for call in iter_calls(module.body)]
    found = []
    bindings = (each for called, each in calls if called.endswith((".def", ".impl")))
    for name, *rest in filter(None, bindings):
        passed = [_WRAPPER.sub("", each) for each in rest]
        bound = next((each for each in passed if not _NO_FUNCTION.match(each)), "")
        bound = bound.strip("& )").rpartition("::")[2]
        found.append((name.strip('"').partition("(")[0], bound if bound.isidentifier() else ""))
    return found


def _list_ffi_exports(root: Node) -> list[tuple[str, str]]:
    """List the exported and the C name of each function of a tvm-ffi module."""
    calls = [each for name, each in iter_calls(root) if name.startswith("TVM_FFI_DLL_EXPORT")]
    return [(each[0], each[1].rpartition("::")[2]) for each in calls if len(each) > 1]


_SIZE = re.compile(
    r"(?:static_cast<[\w: ]+>\(|\(\w+\))?\(?(\w+)\)?\."
    r"(?:size\((-?\d+)\)|sizes\(\)\[(\d+)\]|shape\(\)?[\[(](\d+)[\])])\)?"
)
_RANK = re.compile(
    r"(?:CHECK|ASSERT|ENFORCE)\w*\([^;{}]*?\b(\w+)\.(?:dim|ndim|ndimension)\(\)\s*==\s*(\d+)"
    r"|\b(\w+)\.packed_accessor\w*<[^<>,]+,\s*(\d+)"
)
_RANK_CHECK = re.compile(r"\bCHECK_DIM\w*\((\d+),\s*(\w+)\)")
_LOOKS = re.compile(
    r"size|sizes|dim|ndim|ndimension|shape|stride|strides|view|reshape|\w*accessor\w*"
)
"""Members of a tensor that depend on its shape."""
_POINTER = re.compile(r"\b(\w+)\.(?:\w*data_ptr|data)\b")


def read_tensor_function(
    declaration: Declaration, declarations: Sequence[Declaration], launches: tuple[str, ...]
) -> Function:
    """Return a function of tensors; tensors that it returns stand last among its parameters."""
    parameters = [_read_parameter(node) for node in declaration.parameters]
    tensors = [p.name for p in parameters if p.role == "input"]
    known = _read_dimensions(declaration, tensors)
    dtypes = _read_dtypes(declaration, tensors)
    traced = _trace_tensors(declaration, declarations, parameters, known)
    filled = []
    for each, node in zip(parameters, declaration.parameters, strict=True):
        if each.role == "input":
            found = traced[each.name]
            each = found._replace(
                role=found.role if found.use else "input",
                shape=(),
                guess="",
                use="",
                is_certain=found.is_certain if found.use else has_const(node),
                dtype=dtypes.get(each.name) or found.dtype,
            )
            each = _choose_shape(each, known, found)
        filled.append(each)
    arrays = {p.name: p for p in filled if p.role in _ARRAYS}
    returned = _read_passed_on(declaration, declarations)
    returned = returned or _read_returned(declaration, arrays, known, tensors)
    return Function(
        declaration.name,
        (*filled, *returned),
        scope=declaration.scope,
        returns=declaration.returns,
        template=tuple(each.name for each in declaration.template),
        style=find_style(declaration),
        line=declaration.line,
        launches=launches,
    )


class _Dimensions(NamedTuple):
    """What a host function says of the shapes of its tensors."""

    names: Mapping[str, Mapping[int, str]]
    """Of each tensor, its dimensions that are named, by their place."""
    ranks: Mapping[str, int]
    looked_at: frozenset[str]
    """Tensors whose shape matters to the function."""

    def list_sizes(self) -> set[str]:
        """Return the variables that hold sizes."""
        return {name for dims in self.names.values() for name in dims.values() if name}

    def find_shape(self, tensor: str) -> tuple[tuple[str, ...], bool]:
        """Return the shape of a tensor as far as it is named, and whether it is that long."""
        dims = self.names.get(tensor, {})
        if not dims or min(dims) < 0:
            return (), False
        rank = self.ranks.get(tensor, max(dims) + 1)
        names = [dims.get(at, "") for at in range(rank)]
        return tuple(names) if all(names) else (), tensor in self.ranks


def _choose_shape(own: Parameter, known: _Dimensions, traced: Parameter) -> Parameter:
    """Return a tensor with the shape that its checks or its kernel prove, or suggest."""
    named, is_whole = known.find_shape(own.name)
    same = Counter(d for d in named if d != "1") == Counter(d for d in traced.shape if d != "1")
    if named and (is_whole or (traced.shape and same)):
        return own._replace(shape=named)
    if traced.shape and own.name not in known.looked_at:
        return own._replace(shape=traced.shape)
    longer = traced.shape if traced.shape[: len(named)] == named else named
    guessed = () if "0" in (*named, *traced.shape) else longer
    return own._replace(guess=f"[{', '.join(guessed)}]" if guessed else traced.guess)


def _trace_tensors(
    declaration: Declaration,
    declarations: Sequence[Declaration],
    parameters: Sequence[Parameter],
    known: _Dimensions,
) -> dict[str, Parameter]:
    """Return each tensor with the role and the shape that the kernels it goes to give it."""
    is_const = {
        n: has_const(node)
        for n, node in zip([p.name for p in parameters], declaration.parameters, strict=True)
    }
    tensors = [
        p if is_const[p.name] else p._replace(role="output")
        for p in parameters
        if p.role == "input"
    ]
    names = [p.name for p in tensors]
    counts = _list_counts(declaration, names)
    sizes = [Parameter(name, "int64_t", "size") for name in known.list_sizes() | {*counts}]
    aliases = _list_pointer_aliases(declaration.body, names)
    facts = SourceFacts(tuple(declarations), tuple(find_launch_sites(declarations)), {}, {}, {})
    found = trace_arrays(
        Function(declaration.name, (*tensors, *sizes)),
        declaration,
        facts,
        name_argument=lambda text: _find_tensor(text, names, aliases) or text,
        aliases=aliases,
    )
    return {p.name: p for p in found.parameters}


def _list_counts(declaration: Declaration, tensors: Sequence[str]) -> list[str]:
    """List the local variables that hold how many elements a tensor has."""
    counts = re.compile(rf"(?:\(\w+\))?\(?(?:{'|'.join(tensors) or '(?!)'})\.numel\(\)\)?")
    values = iter_values(declaration.body)
    return [get_text(name) for name, value in values if counts.fullmatch(get_text(value))]


def _read_parameter(node: Node) -> Parameter:
    chain = list(iter_declarators(node))
    name = get_text(chain[-1]) if chain and chain[-1].type == "identifier" else ""
    kind = get_part(node, "type").replace("std::", "")
    if is_tensor(kind):
        return Parameter(name, kind, "input")
    default = get_part(node, "default_value")
    return Parameter(name, kind, "number", value=default)


def _read_dimensions(declaration: Declaration, tensors: Sequence[str]) -> _Dimensions:
    """Return the dimensions that variables hold, and that checks compare with them."""
    sizes: dict[str, dict[int, str]] = {}
    pairs: list[tuple[str, str]] = []
    seen: dict[tuple[str, int], set[str]] = {}
    looked_at = set[str]()
    for node in iter_nodes(declaration.body):
        if node.type == "init_declarator" and node.child_by_field_name("value") is not None:
            pairs.append((get_part(node, "value"), get_part(node, "declarator")))
        elif get_part(node, "operator") in ("==", "!="):
            sides = [get_part(node, side) for side in ("left", "right")]
            pairs.append((sides[0], sides[1]))
        elif node.type == "field_expression" and _LOOKS.fullmatch(get_part(node, "field")):
            looked_at.add(get_part(node, "argument").strip("() "))
    text = get_text(declaration.body)
    pairs += re.findall(r"CHECK_EQ\(([^,()]*\([^()]*\)|[^,()]+),\s*([^;]*?)\)\s*(?:<<|;|$)", text)
    for one, other in (*pairs, *pairs):  # a name may come after the comparison with it
        _name_dimension(one, other, sizes, seen, tensors)
        _name_dimension(other, one, sizes, seen, tensors)
    found = [(m[1] or m[3], int(m[2] or m[4])) for m in _RANK.finditer(text)]
    found += [(m[2], int(m[1])) for m in _RANK_CHECK.finditer(text)]
    ranks = {name: rank for name, rank in found if {r for n, r in found if n == name} == {rank}}
    several = _find_several(pairs, tensors) | {n for n, _ in found if n not in ranks}
    several |= {
        tensor
        for (tensor, _), names in seen.items()
        if len(names) > 1 and any(name.isdecimal() for name in names)
    }
    kept = {name: dims for name, dims in sizes.items() if name not in several}
    return _Dimensions(kept, ranks, frozenset(looked_at | several))


def _find_several(pairs: Sequence[tuple[str, str]], tensors: Sequence[str]) -> set[str]:
    """Return the tensors of which one variable holds two dimensions: of several ranks in turn."""
    places: dict[tuple[str, str], set[int]] = {}
    for text, name in pairs:
        own = _SIZE.fullmatch(re.sub(r"\s", "", text))
        if own is not None and own[1] in tensors and name.isidentifier():
            places.setdefault((own[1], name), set()).add(_read_index(own))
    names = {name for (_, name), indices in places.items() if len(indices) > 1}
    return {tensor for (tensor, name) in places if name in names}


def _name_dimension(
    text: str,
    other: str,
    sizes: dict[str, dict[int, str]],
    seen: dict[tuple[str, int], set[str]],
    tensors: Sequence[str],
) -> None:
    """Name the dimension that a text reads by what it is assigned to, or compared with."""
    own = _SIZE.fullmatch(re.sub(r"\s", "", text))
    if own is None or own[1] not in tensors:
        return
    other = re.sub(r"^\((.*)\)$", r"\1", re.sub(r"\s", "", other))
    same = _SIZE.fullmatch(other)
    name = other if re.fullmatch(r"[A-Za-z_]\w*|[1-9]\d*", other) else ""
    if same and same[1] in tensors:
        name = sizes.get(same[1], {}).get(_read_index(same), "")
    if name and name not in ("true", "false"):
        sizes.setdefault(own[1], {}).setdefault(_read_index(own), name)
        seen.setdefault((own[1], _read_index(own)), set()).add(name)


def _read_index(size: re.Match[str]) -> int:
    return int(next(group for group in size.groups()[1:] if group is not None))


def _read_dtypes(declaration: Declaration, tensors: Sequence[str]) -> dict[str, str]:
    """Return the dtype of each tensor that is cast to one type, or checked to be of one."""
    found: dict[str, set[str]] = {}
    for node in iter_nodes(declaration.body):
        text = get_text(node)
        if node.type not in ("call_expression", "cast_expression") or len(text) > 300:
            continue
        typed = _TYPED_POINTER.search(text) or _TYPED_INFO.match(text)
        cast = re.match(
            r"(?:\w+<|\()\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*[>)]*\(?\s*(\w+)\.", text
        )
        named = (typed.groups(),) if typed else (cast.groups()[::-1],) if cast else ()
        for name, kind in named:
            if name in tensors and kind.replace("std::", "") in DTYPES:
                found.setdefault(name, set()).add(DTYPES[kind.replace("std::", "")])
        words = re.findall(r"\w+", re.sub(r'"[^"\n]*"', "", text))
        tested = {word for word in words if word in tensors}
        is_test = "==" in text or re.match(r"\w*(?:CHECK|ASSERT)", text)
        if len(tested) == 1 and is_test:
            kinds = {TORCH_KINDS[word] for word in words if word in TORCH_KINDS}
            found.setdefault(tested.pop(), set()).update(kinds)
    return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1}


_TYPED_POINTER = re.compile(r"\b(\w+)\.\w*(?:data_ptr|data|accessor\w*)<(?:const )?([\w:]+)[,>]")
_TYPED_INFO = re.compile(r"(?:\w+::)*\w*Info<(?:const )?(?=[\w:]+[^<>()]*>\(\s*(\w+)\b)([\w:]+)")


def _list_pointer_aliases(body: Node | None, tensors: Sequence[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for name, value in iter_values(body):
        tensor, text = _find_tensor(get_text(value), tensors, aliases), get_text(value)
        if tensor is not None and ("data" in text or "(" not in text):
            aliases[re.sub(r"[*\s]", "", get_text(name))] = tensor
    return aliases


def _find_tensor(text: str, tensors: Sequence[str], aliases: dict[str, str]) -> str | None:
    match = _POINTER.search(text)
    if match and match[1] in tensors:
        return match[1]
    bare = re.sub(r"^\([^()]*\)", "", text.strip())
    return aliases.get(bare) or (bare if bare in tensors else None)


def _read_passed_on(
    declaration: Declaration, declarations: Sequence[Declaration]
) -> list[Parameter]:
    """Return the outputs, of unknown shapes, of a function that returns another's list of tensors.

    None where it returns a list of its own, or where the other's body is not known.
    """
    text = get_text(declaration.body)
    call = re.search(r"\breturn\s+(?:\w+::)*(\w+)\s*\([^{};]*\)\s*;\s*\}\s*$", text)
    if call is None or not re.search(r"\b(?:vector|tuple)\b", declaration.returns):
        return []
    inner = next((d for d in declarations if d.name == call[1] and d.body is not None), None)
    if inner is None or inner == declaration:
        return []
    own = [each.name for each in map(_read_parameter, inner.parameters)]
    found = _read_returned(inner, {}, _Dimensions({}, {}, frozenset()), own)
    return [each._replace(shape=(), guess="") for each in found]


def _read_returned(
    declaration: Declaration,
    arrays: Mapping[str, Parameter],
    known: _Dimensions,
    tensors: Sequence[str],
) -> list[Parameter]:
    """Return an output for each tensor that a function returns."""
    if "Tensor" not in declaration.returns and "tuple" not in declaration.returns:
        return []
    texts = [
        get_text(node).removeprefix("return").strip(" ;")
        for node in iter_nodes(declaration.body or declaration.parameters[0])
        if node.type == "return_statement"
    ]
    last = texts[-1] if texts else "out"
    listed = re.fullmatch(r"(?:std::make_tuple|std::tuple\S*)?\s*[({](.*)[)}]", last, re.DOTALL)
    names = [part.strip() for part in listed[1].split(",")] if listed else [last]
    is_counted = bool(listed) or not re.search(r"\b(?:vector|tuple)\b", declaration.returns)
    made = collect_made(declaration)
    sizes = known.list_sizes()
    outputs = []
    for index, name in enumerate(names):
        given = name if name in tensors else ""
        own = made.get(name, MadeTensor(given, given))
        like, dims = arrays.get(own.source), own.dims
        field = name if name.isidentifier() and name not in tensors else f"out{index or ''}"
        is_known = bool(dims) and all(d in sizes or (d.isdecimal() and d != "0") for d in dims)
        shape = dims if is_known else like.shape if like else ()
        guess = like.guess if like else ""
        guess = guess or (f"[{', '.join(dims)}]" if dims else "")
        kind = arrays.get(own.dtype_source)
        dtype = own.dtype or (kind.dtype if kind else None)
        output = Parameter(field, "return", "output", dtype, is_certain=is_counted, shape=shape)
        outputs.append(output._replace(guess="" if shape else guess))
    return outputs
