import re

import pytest

from tq_hw.model.rules.signatures import KINDS, SIGNATURES
from tq_hw.model.tflite.schema import (
    ENUMS,
    LOST_OPTIONS,
    MAX_VERSIONS,
    OPERATOR_OPTIONS,
    OPERATORS,
    OPTION_TABLES,
    OPTIONS,
    OPTIONS_REQUIRED,
    SECOND_TABLES,
    TENSOR_TYPES,
    operator_code,
)

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="the oracles are not installed")

GENERATED_ENUMS = {"Activation": "ActivationFunctionType", "Padding": "Padding", "MirrorPadMode": "MirrorPadMode",
                   "WeightsFormat": "FullyConnectedOptionsWeightsFormat", "LstmKernel": "LSTMKernelType",
                   "TensorType": "TensorType"}


def names_of(enum):
    members = {value: name for name, value in vars(enum).items() if isinstance(value, int)}
    return tuple(members[value] for value in sorted(members))


def test_operators_are_those_of_the_schema():
    assert names_of(schema.BuiltinOperator) == OPERATORS


def test_option_tables_are_those_of_the_schema():
    assert names_of(schema.BuiltinOptions) == OPTION_TABLES


def test_second_option_tables_are_those_of_the_schema():
    for name, number in SECOND_TABLES.values():
        assert getattr(schema.BuiltinOptions2, name) == number


def test_second_options_that_are_not_read_are_known():
    """An operator without options, such as STABLEHLO_ADD, cannot lose any."""
    tables = {name.removesuffix("Options").upper() for name in names_of(schema.BuiltinOptions2)[1:]}
    assert {op for op in OPERATORS if op.replace("_", "") in tables} == {*SECOND_TABLES, "DILATE", "REDUCE_WINDOW", *(
        op for op in LOST_OPTIONS if op.startswith("STABLEHLO_"))}


def test_tensor_types_are_those_of_the_schema():
    assert tuple(name.lower() for name in names_of(schema.TensorType)) == TENSOR_TYPES


@pytest.mark.parametrize("name", [name for name in GENERATED_ENUMS if name != "TensorType"])
def test_enumerations_are_those_of_the_schema(name):
    assert names_of(getattr(schema, GENERATED_ENUMS[name])) == ENUMS[name]


@pytest.mark.parametrize("table", sorted(OPTIONS))
def test_option_fields_are_those_of_the_schema(table):
    generated = getattr(schema, f"{table}T")()
    for field in OPTIONS[table]:
        attribute = re.sub(r"_(\w)", lambda match: match[1].upper(), field.name)
        default = getattr(generated, attribute)
        if field.kind in ENUMS:
            assert ENUMS[field.kind][default] == field.default
        else:
            assert (default or field.default) == field.default
        assert f"def {table}Add{attribute[0].upper() + attribute[1:]}" in SOURCE
        assert re.search(rf"def {table}Add{attribute[0].upper() + attribute[1:]}\(builder, \w+\):\s+"
                         rf"builder\.Prepend\w+Slot\({field.slot},", SOURCE)


with open(schema.__file__, encoding="utf-8") as file:
    SOURCE = file.read()


def test_options_that_are_not_read_are_known():
    tables = {name for name in OPTION_TABLES[1:] if re.search(rf"def {name}Add\w+\(", SOURCE)} - set(OPTIONS)
    assert {op for op, table in OPERATOR_OPTIONS.items() if table in tables} <= LOST_OPTIONS
    assert tables <= set(OPERATOR_OPTIONS.values())


def test_every_name_in_a_table_is_an_operator():
    for table in (OPERATOR_OPTIONS, OPTIONS_REQUIRED, MAX_VERSIONS, SIGNATURES):
        assert set(table) <= set(OPERATORS)


def test_every_operator_with_a_signature_has_a_version():
    assert set(SIGNATURES) <= set(MAX_VERSIONS)


def test_every_slot_has_a_kind():
    for signature in SIGNATURES.values():
        assert {slot.kind for slot in signature.inputs + signature.outputs} <= set(KINDS)


@pytest.mark.parametrize("deprecated, builtin, code", [(3, 0, 3), (3, 3, 3), (127, 142, 142), (0, 0, 0)])
def test_the_larger_operator_code_is_in_force(deprecated, builtin, code):
    assert operator_code(deprecated, builtin) == code
