"""ONNX Runtime's enumerations, with its names and numbers."""

from __future__ import annotations

from enum import Enum, IntEnum


class _Named(IntEnum):
    """Base of enumerations whose members print by their names, as ONNX Runtime's do."""

    __str__ = Enum.__str__
    __format__ = Enum.__format__


class GraphOptimizationLevel(_Named):
    """How far ONNX Runtime would optimise a graph; clgraph's passes are named by its own options."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class OrtCompileApiFlags(_Named):
    """What ``ModelCompiler`` is to refuse."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class ExecutionMode(_Named):
    """Whether ONNX Runtime would run independent nodes at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """In which order ONNX Runtime would run nodes."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtExecutionProviderDevicePolicy(_Named):
    """What ONNX Runtime would prefer where it chooses devices."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtAllocatorType(_Named):
    """How ONNX Runtime would allocate memory."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_Named):
    """What memory is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(_Named):
    """Who can reach memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(IntEnum):
    """Vendors, by their numbers on the PCI bus."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(_Named):
    """Kinds of hardware."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemoryInfoDeviceType(_Named):
    """Kinds of devices that memory belongs to."""

    CPU = 0
    GPU = 1
    NPU = 3
    FPGA = 2


class OrtCompiledModelCompatibility(_Named):
    """Whether a device can run what a provider has compiled."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(_Named):
    """What speaks against a device, in bits."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(2**31)


class ModelPackageWriteMode(_Named):
    """How a package of models would be written."""

    PRESERVE = 0
    DENSE = 1


class ArenaExtendStrategy(_Named):
    """How an arena would grow."""

    kNextPowerOfTwo = 0  # noqa: N815  # as ONNX Runtime has it
    kSameAsRequested = 1  # noqa: N815  # as ONNX Runtime has it


class OrtSparseFormat(_Named):
    """How a sparse tensor is laid out."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4
