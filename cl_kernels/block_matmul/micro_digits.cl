// One register block of a product of rows in digits and 64 columns of weights of few bits: UR rows by 64 columns, NB vectors
// of 16 columns at a time.
//
// Instance: UR, NB, DIGITS (bytes of a number of x: 3 or 1), BITS (of a weight). AVX-512 holds UR * NB * DIGITS <= 24 sums.
//
// x, x_row      digits [DIGITS][digit] of a row, and bytes from one row to the next
// sums, scales  of the digits of a block, and their scale, as block_digits.cl writes them; blocks of a row
// w             records as in clgraph/ops/block_records.py, `pieces` words of a column in each
// zeros         whether the records have zero points; else they are 2^(BITS - 1)
// c, c_row      the result, of whose 64 columns the first `columns` exist and are written
//
// Exact within a block (|sum| <= 255 * 127 * 256 < 2^24 for each digit); the digits' sums become one float by two fma, and
// those of the blocks add up in float, in order: with that of block_digits.cl,
// |error| <= (blocks + 4) 2^-24 sum |x w| + 2^-24 sum over blocks (max |x| sum |w|), 2^-8 with one digit.
#include "post_tile.clh"
#include "records.clh"
#include "vnni.clh"

#ifndef UR
  #define UR 1
#endif
#ifndef NB
  #define NB 4
#endif
#ifndef DIGITS
  #define DIGITS 3
#endif
#ifndef BITS
  #define BITS 4
#endif
#define FIELDS (8 / BITS)

NOINLINE static void micro_digits(__global const char* restrict x, const long x_row, const int digit,
                                  __global const int* restrict sums, __global const float* restrict scales,
                                  const int blocks, __global const uint* restrict w, const int pieces, const int zeros,
                                  __global float* restrict c, const int c_row, const int columns) {
  const int record = 64 * (pieces + 1) + 16 * zeros;
  for (int j0 = 0; j0 * 16 < columns; j0 += NB) {
    __global const char* xs = x;
    __global const uint* from = w + j0 * 16;
    float16 sum[UR][NB];
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) sum[i][j] = 0.0f;
    }
    #pragma unroll 1
    for (int b = 0; b < blocks; b++, from += record) {
      int16 part[UR][NB][DIGITS];
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        #pragma unroll
        for (int i = 0; i < UR; i++) {
          #pragma unroll
          for (int d = 0; d < DIGITS; d++) part[i][j][d] = -sums[(i * blocks + b) * DIGITS + d] * (1 << (BITS - 1));
        }
      }
      if (zeros) {
        __global const uchar* points = (__global const uchar*)(from + 64 * (pieces + 1)) - j0 * 48;
        #pragma unroll
        for (int j = 0; j < NB; j++) {
          const int16 point = convert_int16(*(__global const uchar16*)(points + j * 16));
          #pragma unroll
          for (int i = 0; i < UR; i++) {
            #pragma unroll
            for (int d = 0; d < DIGITS; d++) part[i][j][d] = point * -sums[(i * blocks + b) * DIGITS + d];
          }
        }
      }
      #pragma unroll 2
      for (int p = 0; p < pieces; p++) {
        int16 words[NB];
        #pragma unroll
        for (int j = 0; j < NB; j++) {
          FETCH_RECORD(from + p * 64 + j * 16, UR);
          words[j] = as_int16(LOAD_LOOSE((__global const float*)from + p * 64 + j * 16));
        }
        #pragma unroll
        for (int f = 0; f < FIELDS; f++, xs += 4) {
          int16 q[NB];
          #pragma unroll
          for (int j = 0; j < NB; j++)
            q[j] = BITS == 8 ? words[j] : as_int16(as_uint16(words[j]) >> (uint16)(f * BITS)) & 0x01010101 * ((1 << BITS) - 1);
          #pragma unroll
          for (int i = 0; i < UR; i++) {
            #pragma unroll
            for (int d = 0; d < DIGITS; d++) {
              const int16 v = (int16)(*(__global const int*)(xs + i * x_row + d * digit));
              #pragma unroll
              for (int j = 0; j < NB; j++) part[i][j][d] = add_dots(part[i][j][d], q[j], v);
            }
          }
        }
      }
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        FETCH_RECORD(from + 64 * pieces + j * 16, UR);
        const float16 scale = LOAD_LOOSE((__global const float*)from + 64 * pieces + j * 16);
        #pragma unroll
        for (int i = 0; i < UR; i++) {
          float16 v = FLOATS_OF(part[i][j][DIGITS - 1]);
          #pragma unroll
          for (int d = DIGITS - 2; d >= 0; d--) v = fma(v, (float16)(256.0f), FLOATS_OF(part[i][j][d]));
          sum[i][j] = fma(v * scales[i * blocks + b], scale, sum[i][j]);
        }
      }
    }
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        const int lanes = min(16, columns - (j0 + j) * 16);
        if (lanes > 0) store_lanes(c + (long)i * c_row + (j0 + j) * 16, sum[i][j], lanes);
      }
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_digits_alone(__global const char* x, __global const int* sums, __global const float* scales,
                                 __global const uint* w, __global float* c, const int blocks) {
  micro_digits(x, blocks * 32, blocks * 32, sums, scales, blocks, w, 4, 0, c, 64, 64);
}
#endif
