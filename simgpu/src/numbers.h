/* Half precision on the host, which computes in single: what is stored is rounded once, to nearest even. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float from_bfloat16(uint16_t bits) { return from_bits((uint32_t)bits << 16); }
static inline uint16_t to_bfloat16(float value) {
    uint32_t bits = bits_of(value);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40); /* stays not a number */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float from_float16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    return from_bits(sign | bits_of((float)fraction * 0x1p-24f)); /* zero and what is below the smallest normal */
}
static inline uint16_t to_float16(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);   /* not a number */
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);  /* rounds to 65520 or more: infinite */
    if (size < 0x38800000) /* below the smallest normal: adding 0.5 leaves the fraction, rounded, at the bottom */
        return (uint16_t)(sign | (bits_of(from_bits(size) + 0.5f) - bits_of(0.5f)));
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - ((uint32_t)112 << 23)) >> 13);
}
