#include "tq.h"

/* Round half away from zero; INT64_MIN for NaN and values outside int32. */
static int64_t rounded(float value)
{
    int64_t whole;
    float rest;
    if (!(value > -2147483648.0f && value < 2147483648.0f))
        return INT64_MIN;
    whole = (int64_t)value;
    rest = value - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

tq_status tq_quantize(const tq_tensor *tensor, const float *values, void *stored, uint32_t count)
{
    const int64_t low = tensor->dtype == TQ_DTYPE_INT8 ? INT8_MIN : tensor->dtype == TQ_DTYPE_UINT8 ? 0 : INT16_MIN;
    const int64_t high =
        tensor->dtype == TQ_DTYPE_INT8 ? INT8_MAX : tensor->dtype == TQ_DTYPE_UINT8 ? UINT8_MAX : INT16_MAX;
    uint8_t *bytes = stored;
    if (tensor->edge != TQ_EDGE_QUANTIZE || tensor->dtype > TQ_DTYPE_INT16)
        return TQ_BAD_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        int64_t value = rounded(values[i] / (float)tensor->scale);
        if (value == INT64_MIN)
            return TQ_NOT_FINITE;
        value += tensor->zero_point;
        value = value < low ? low : value > high ? high : value;
        if (tensor->dtype != TQ_DTYPE_INT16) {
            bytes[i] = (uint8_t)value;
        } else {
            bytes[2u * i] = (uint8_t)value;
            bytes[2u * i + 1u] = (uint8_t)((uint64_t)value >> 8);
        }
    }
    return TQ_OK;
}

tq_status tq_dequantize(const tq_tensor *tensor, const void *stored, float *values, uint32_t count)
{
    const uint8_t *bytes = stored;
    if (tensor->edge != TQ_EDGE_DEQUANTIZE || tensor->dtype > TQ_DTYPE_INT16)
        return TQ_BAD_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        int32_t value;
        if (tensor->dtype == TQ_DTYPE_INT8)
            value = (int8_t)bytes[i];
        else if (tensor->dtype == TQ_DTYPE_INT16)
            value = (int16_t)(uint16_t)(bytes[2u * i] | (uint32_t)bytes[2u * i + 1u] << 8);
        else
            value = bytes[i];
        values[i] = (float)(tensor->scale * (double)((int64_t)value - tensor->zero_point));
    }
    return TQ_OK;
}
