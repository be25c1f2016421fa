/* The custom operator "tq-hw" for TFLite Micro: a compiled part of a model, run by the driver of the accelerator.
 *
 *     static const tflite::TqHwDevice device = {&bus, 0x40000000u, 1u << 20, 100000000u};
 *     tflite::SetTqHwDevice(&device);
 *     resolver.AddCustom(tflite::GetString_TQ_HW(), tflite::Register_TQ_HW());
 *
 * C++11, no heap: what it keeps lies in the interpreter's arena. */
#ifndef TQ_HW_TFLM_H
#define TQ_HW_TFLM_H

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/micro_common.h"

#include "tq.h"

namespace tflite {

/* Where the accelerator is. */
struct TqHwDevice {
  const tq_bus* bus;
  uint32_t memory; /* of the device, for images, arenas and states: a multiple of TQ_ALIGN */
  uint32_t memory_bytes;
  uint32_t most_cycles; /* of one run; a longer run is given up */
};

/* Set the accelerator of all interpreters whose tensors are allocated from now on. `device` must stay valid. The parts
 * of a model lie one after the other in its memory, followed by those of the next interpreter. Call this again before
 * the tensors of an interpreter are allocated that may overwrite the others. */
void SetTqHwDevice(const TqHwDevice* device);

TFLMRegistration* Register_TQ_HW();

/* The operator's name in a model. */
const char* GetString_TQ_HW();

}  // namespace tflite

#endif /* TQ_HW_TFLM_H */
