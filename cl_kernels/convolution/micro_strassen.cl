// One register block of a 1x1 convolution by Strassen's algorithm: UR pixels of two neighbouring rows by two times NB blocks of
// 16 output channels, out = min(max(bias + sum over c of in w + res, low), high).
//
// With the channels halved, (row, half) of the input is A11, A12; A21, A22, and (half, left or right blocks) of the weights
// B11, B12; B21, B22. Seven products of half the channels make the four blocks of the result (Winograd's variant), each
// added to the registers that hold those before it:
//   C11 = A11 B11 + A12 B21                U = A11 B11 + S2 T2        V = U + S3 T3
//   C21 = V + A22 (-T4)                    M = S1 T1                  C22 = V + M         C12 = U + M + S4 B22
// with S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2 (strassen_sums_fsv16.cl) and the T of strassen_weights.
//
// Instance: NB, UR. AVX-512 holds NB * UR <= 28 accumulators, AVX2 6.
//
// ip, in_c, lower   the upper row's first pixel; floats from one channel block, from the upper row, to the next
// runs              channel blocks of a half
// sums, copied      S2, S3, S1, S4 of these pixels, each [runs][UR][16];  copied: A11, A12, S2, S3, A22, S1, S4
// wp                [7][runs * 16][NB * 16]: B11, B21, T2, T3, -T4, T1, B22
// bias, res, op     of the left blocks: 16 floats a block, planes; bias and res 0 for none
// res_c, res_y, out_c, out_y   floats from one block, from the upper row, to the next
// parts             room for 2 * NB * UR * 16 floats: U or A11 B11, and V
// near              as in micro_conv.cl
// ahead, lines      `lines` cache lines are fetched from `ahead` on with each run of 16 channels
//
// The sums run in float with fma. Of each operand on its way to the result there are at most 3 n / 2 + 1 roundings of sums
// of n channels, 3 of S and 1 of T; with one more each for bias and residual
//   |error| <= (3 n / 2 + 7) 2^-24 G,   G = the seven products with |S| and |T| as sums of absolute values, added up:
// G <= 9 n max |in| max |w|, where a sum of absolute products is at most n max |in| max |w| (Higham, Accuracy and
// Stability of Numerical Algorithms, 23.2: no bound for each result by its own operands alone). Inputs above 2^125 overflow
// in sums; what is not finite spreads over the block.
#include "tile.clh"

#ifndef NB
  #define NB 2
#endif
#ifndef UR
  #define UR 14
#endif

#define EACH(...) \
  _Pragma("unroll") for (int j = 0; j < NB; j++) { \
    _Pragma("unroll") for (int i = 0; i < UR; i++) { __VA_ARGS__; } \
  }
#define ROW(p) ((p) == 4 || (p) == 5)
#define RIGHT(p) ((p) > 4)
#define PART(n) (parts + (((n) * NB + j) * UR + i) * 16)

// Write v to row `low_row`, block `block` of the result.
#define PUT_BLOCK(low_row, right, value) \
  { \
    const long to = (long)((right) * NB + j) * out_c + (low_row) * out_y + i * 16; \
    float16 v = value; \
    if (bias) v += LOAD16(bias + ((right) * NB + j) * 16); \
    if (res) v += LOAD16(res + (long)((right) * NB + j) * res_c + (low_row) * res_y + i * 16); \
    v = v < (float16)(low) ? (float16)(low) : v; \
    STORE16(op + to, v > (float16)(high) ? (float16)(high) : v); \
  }

NOINLINE static void micro_strassen(__global const float* restrict ip, const int in_c, const int lower, const int runs,
                                    __global const float* restrict sums, const int copied,
                                    __global const float* restrict wp, __global const float* bias, __global const float* res,
                                    const int res_c, const int res_y, __global float* op, const int out_c, const int out_y,
                                    const float low, const float high, __global float* parts, const int near,
                                    __global const float* ahead, const int lines) {
  float16 acc[NB][UR];
  #pragma unroll 1
  for (int p = 0; p < 7; p++) {
    const bool own = !copied && (p < 2 || p == 4);
    __global const float* pixel = sums + (long)(copied ? p : p - 2 - (p > 4)) * runs * UR * 16;
    if (own) pixel = ip + (p ? (long)runs * in_c : 0) + (p == 4 ? lower : 0);
    const int step = own ? in_c : UR * 16;
    if (p == 0 || p == 5) EACH(acc[j][i] = 0.0f)
    if (p == 2) EACH(acc[j][i] = LOAD16(PART(0)))
    if (near && (p == 1 || p > 3)) {
      __global float* to = op + (long)RIGHT(p) * NB * out_c + ROW(p) * out_y;
      __global const float* with = res ? res + (long)RIGHT(p) * NB * res_c + ROW(p) * res_y : 0;
      EACH(FETCH_TO_WRITE(to + (long)j * out_c + i * 16); if (with && with != to) FETCH_NEXT(with + (long)j * res_c + i * 16))
    }
    for (int run = 0; run < runs; run++, pixel += step, ahead += lines * 16) {
      for (int l = 0; l < lines; l++) FETCH(ahead + l * 16);
      if (own && near > 1) {
        #pragma unroll
        for (int i = UR; i < 2 * UR; i++) FETCH_NEXT(pixel + i * 16);
      }
      #pragma unroll 1
      for (int k = 0; k < 16; k++, wp += NB * 16) {
        float16 w[NB];
        #pragma unroll
        for (int j = 0; j < NB; j++) w[j] = LOAD16(wp + j * 16);
        #pragma unroll
        for (int i = 0; i < UR; i++) {
          const float16 v = (float16)(pixel[i * 16 + k]);
          #pragma unroll
          for (int j = 0; j < NB; j++) acc[j][i] = fma(v, w[j], acc[j][i]);
        }
      }
    }
    // One copy for three results, and one for three parts, takes half as long to compile as one for each.
    if (p == 5) EACH(PUT_BLOCK(ROW(5), RIGHT(5), acc[j][i] + LOAD16(PART(1))) acc[j][i] += LOAD16(PART(0)))
    else if (p == 1 || p == 4 || p == 6) EACH(PUT_BLOCK(ROW(p), RIGHT(p), acc[j][i]))
    else EACH(STORE16(PART(p == 3), acc[j][i]))
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_strassen_alone(__global const float* in, __global const float* sums, __global const float* w,
                                   __global float* out, __global float* parts, const int in_c, const int lower,
                                   const int runs, const int out_c, const int out_y) {
  micro_strassen(in, in_c, lower, runs, sums, 0, w, 0, 0, 0, 0, out, out_c, out_y, -INFINITY, INFINITY, parts, 0, w, 0);
}
#endif
