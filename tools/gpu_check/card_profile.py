"""The card as cuDNN tells it, from which plans can be made where it is not (betty-run --plan --device-profile FILE).
By itself: card_profile.py LIBRARY prints it."""
import ctypes
import json
import os
import sys

# Of cudnn_graph.h: a descriptor of a device's properties, its attributes, and their types.
DEVICEPROP, DEVICE_ID, JSON_TEXT, TYPE_INT32, TYPE_CHAR = 38, 2700, 2702, 23, 24
ROOM = 1 << 16


def of_card(machine, environment):
    """As an object; None where there is no card or no cuDNN, or it does not tell."""
    import machine as machines

    cudnn = machine["libraries"].get("cuDNN")
    if machine["device"]["kind"] != "gpu" or not cudnn:
        return None
    said = machines.answer([sys.executable, os.path.abspath(__file__), cudnn["file"]], 60, env=environment)
    try:
        return dict(json.loads(said), origin="read from the card by cuDNN") if said else None
    except ValueError:
        return None


def must(result, what):
    if result:
        sys.exit(f"{what}: cuDNN says {result}")


def main(path):
    cudnn = ctypes.CDLL(path)
    for name in ("cudnnBackendSetAttribute", "cudnnBackendGetAttribute"):
        getattr(cudnn, name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p,
                                         *[ctypes.c_void_p] * ("Get" in name)]
    cudnn.cudnnBackendFinalize.argtypes = [ctypes.c_void_p]
    card, device, length = ctypes.c_void_p(), ctypes.c_int32(0), ctypes.c_int64()
    text = ctypes.create_string_buffer(ROOM)
    must(cudnn.cudnnBackendCreateDescriptor(DEVICEPROP, ctypes.byref(card)), "a descriptor")
    must(cudnn.cudnnBackendSetAttribute(card, DEVICE_ID, TYPE_INT32, 1, ctypes.byref(device)), "the device")
    must(cudnn.cudnnBackendFinalize(card), "asking the device")
    # The last two: where the number of characters goes, and where they go.
    must(cudnn.cudnnBackendGetAttribute(card, JSON_TEXT, TYPE_CHAR, ROOM, ctypes.addressof(length), text), "the text")
    print(json.dumps(json.loads(text.value.decode())))


if __name__ == "__main__":
    main(sys.argv[1])
