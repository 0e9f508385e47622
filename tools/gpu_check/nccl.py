"""A sum by NCCL over one rank, through the driver: nccl.py LIBRARY."""
import ctypes
import sys

COUNT = 1024
FLOAT32, SUM = 7, 0  # ncclFloat32, ncclSum


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def must(result, what):
    if result:
        sys.exit(f"{what}: error {result}")


def main(path):
    cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(path)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_void_p, ctypes.c_void_p]
    cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
    context, comm, id_ = ctypes.c_void_p(), ctypes.c_void_p(), UniqueId()
    given, taken = ctypes.c_uint64(), ctypes.c_uint64()
    host, back = (ctypes.c_float * COUNT)(*range(COUNT)), (ctypes.c_float * COUNT)()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    for memory in (given, taken):
        must(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(host))), "cuMemAlloc")
    must(cuda.cuMemcpyHtoD_v2(given, host, ctypes.sizeof(host)), "cuMemcpyHtoD")
    must(nccl.ncclGetUniqueId(ctypes.byref(id_)), "ncclGetUniqueId")
    must(nccl.ncclCommInitRank(ctypes.byref(comm), 1, id_, 0), "ncclCommInitRank")
    must(nccl.ncclAllReduce(given, taken, COUNT, FLOAT32, SUM, comm, None), "ncclAllReduce")
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    must(cuda.cuMemcpyDtoH_v2(back, taken, ctypes.sizeof(back)), "cuMemcpyDtoH")
    must(nccl.ncclCommDestroy(comm), "ncclCommDestroy")
    if list(back) != list(host):
        sys.exit("the sum over one rank is not what was given")


main(sys.argv[1])
