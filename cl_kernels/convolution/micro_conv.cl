// Register blocks of a convolution, each NB blocks of 16 output channels by UR neighbouring pixels of one row.
//
//   out[b][i][o] = end(bias[b][o] + sum over c, ky, kx of in[c][ky][i S + kx] w[c][ky][kx][b][o] + res[b][i][o])
//
// Instance: NB, UR; S the horizontal stride (0: a run-time one, `stride`); PX the floats of an input pixel, 16 for blocked
// input, 1 for planes of single channels; HALVES the halves of blocks that are computed: 2 NB, or those that the last group
// has, in its weights of NB blocks. AVX-512 holds NB * UR <= 28 accumulators, AVX2 6.
//
// ip, wp      input at the window of the first pixel; weights [c / 16][ky][kx][16][NB * 16], the last block padded
// blocks      of the NB those that there are; the others' weights are read, their bias, residual and output are not there
// bias, res   16 floats a block, planes; 0 for none
// channels    input channels, counted one by one;  kernel_y, kernel_x: of the window
// parts       0, or the input channels that are read, as `channels` runs of neighbours in one block, three integers each:
//             floats to the first one from ip and from wp, and how many (at most 16; blocked input alone)
// in_c, in_y, in_x     floats from one block (PX = 1: channel), window row, window column of the input to the next
// stride      floats from one pixel's window to the next, read where S is 0
// out_c, res_c         floats from one block of the output and the residual to the next
// count                register blocks: of one row, or of rows below one another
// in_step, out_step, res_step     floats from one to the next
// end         what is applied to the sums in registers: float_end.clh
// near        1: while products are made, the lines of the result and the residual come near; 2: those of the pixels behind
//             these, too, under windows of one element. They lie in as many pieces as there are blocks, which cores do not
//             find by themselves. 0: what is read and written lies near, or in one piece
// ahead, lines         `lines` cache lines are prefetched from `ahead` on for each (block, ky, kx) of each register block;
//                      blocked input alone
//
// Returns 1, with nothing written, where there are `parts`, which one register block has, and a sum is not finite: to be
// computed without the weights that are not there. Else 0.
//
// All of NB, UR, S, PX, HALVES are constants of the instance; the sum runs in float with fma, channels innermost:
// |error| <= n 2^-24 sum |in w| for n = channels * kernel_y * kernel_x, plus one rounding each for bias and residual,
// and those of the end.
#include "float_end.clh"
#include "tile.clh"

#ifndef NB
  #define NB 2
#endif
#ifndef UR
  #define UR 14
#endif
#ifndef S
  #define S 1
#endif
#ifndef PX
  #define PX 16
#endif
#ifndef HALVES
  #define HALVES (2 * NB)
#endif
#define WHOLE (HALVES / 2)
#define HALF (HALVES % 2)
#define PIXEL(i) (S ? (i) * S * PX : (i) * stride)

NOINLINE static int micro_conv(__global const float* restrict ip, __global const float* restrict wp,
                               __global const float* restrict bias, __global const float* restrict res,
                               __global float* restrict op, const int blocks, const int channels,
                               __global const int* parts,
                               const int kernel_y, const int kernel_x, const int in_c, const int in_y, const int in_x,
                               const int stride, const int out_c, const int res_c, int count, const int in_step,
                               const int out_step, const int res_step, const float_end* end, const int near,
                               __global const float* ahead, const int lines) {
  const int window = kernel_y * kernel_x, runs = PX == 1 || parts ? channels : (channels + PX - 1) / PX;
  for (; count > 0; count--, ip += in_step, op += out_step, res += res ? res_step : 0) {
    float16 acc[NB][UR];
    float8 half_acc[UR];
    #pragma unroll
    for (int i = 0; i < UR; i++) half_acc[i] = HALF && bias ? vload8(0, bias + WHOLE * 16) : (float8)(0.0f);
    #pragma unroll
    for (int b = 0; b < WHOLE; b++) {
      const float16 first = bias && b < blocks ? LOAD16(bias + b * 16) : (float16)(0.0f);
      #pragma unroll
      for (int i = 0; i < UR; i++) acc[b][i] = first;
    }
    for (int b = 0; near && b < WHOLE + HALF; b++) {
      if (b && b >= blocks) break;
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        FETCH_TO_WRITE(op + (long)b * out_c + i * 16);
        if (res && res != op) FETCH_NEXT(res + (long)b * res_c + i * 16);
      }
    }
    __global const float *block = ip, *weights = wp, *row = ip, *pixel = ip;
    int left = channels, present = PX == 1 ? 1 : PX, tap = 0, kx = 0;
    // One loop over blocks and window: nested ones take as long to run, but a fifth longer to compile.
    for (int step = runs * window; step > 0; step--) {
      if (PX > 1 && tap == 0) {
        present = min(PX, left);
        left -= PX;
      }
      if (PX > 1 && tap == 0 && parts) {
        pixel = row = ip + parts[0];
        weights = wp + parts[1];
        present = parts[2];
        parts += 3;
      }
      for (int l = 0; PX > 1 && l < lines; l++) FETCH(ahead + l * 16);
      ahead += lines * 16;
      if (PX > 1 && near > 1 && window == 1) {
        #pragma unroll
        for (int i = UR; i < 2 * UR; i++) FETCH_NEXT(pixel + PIXEL(i));
      }
      int k = 0;
      #pragma unroll 1
      do {
        float16 w[NB];
        #pragma unroll
        for (int b = 0; b < WHOLE; b++) w[b] = LOAD16(weights + (k * NB + b) * 16);
        const float8 half_w = HALF ? vload8(0, weights + (k * NB + WHOLE) * 16) : (float8)(0.0f);
        #pragma unroll
        for (int i = 0; i < UR; i++) {
          const float16 v = (float16)(pixel[PIXEL(i) + k]);
          #pragma unroll
          for (int b = 0; b < WHOLE; b++) acc[b][i] = fma(v, w[b], acc[b][i]);
          if (HALF) half_acc[i] = fma(v.lo, half_w, half_acc[i]);
        }
      } while (++k < present);
      weights += PX * NB * 16;
      pixel += in_x;
      tap++;
      if (++kx == kernel_x) {
        kx = 0;
        pixel = row += in_y;
        if (tap == window) {
          tap = 0;
          pixel = row = block += in_c;
        }
      }
    }
    if (HALF) {
      #pragma unroll
      for (int i = 0; i < UR; i++) acc[WHOLE][i] = (float16)(half_acc[i], (float8)(0.0f));
    }
    if (PX > 1 && parts) {
      float16 nothing = (float16)(0.0f);
      #pragma unroll
      for (int b = 0; b < WHOLE + HALF; b++) {
        #pragma unroll
        for (int i = 0; i < UR; i++) nothing = fma(acc[b][i], (float16)(0.0f), nothing);
      }
      const float8 eight = nothing.lo + nothing.hi;
      const float4 four = eight.lo + eight.hi;
      if (four.x + four.y + four.z + four.w != 0.0f) return 1;
    }
    #pragma unroll
    for (int b = 0; b < WHOLE + HALF; b++) {
      if (b && b >= blocks) break;
      if (res) {
        #pragma unroll
        for (int i = 0; i < UR; i++) acc[b][i] += LOAD16(res + (long)b * res_c + i * 16);
      }
      END_REGISTERS(acc[b], UR, end)
      #pragma unroll
      for (int i = 0; i < UR; i++) STORE16(op + (long)b * out_c + i * 16, acc[b][i]);
    }
  }
  return 0;
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_conv_alone(__global const float* in, __global const float* w, __global const float* bias,
                               __global float* out, const int channels, const int kernel_y, const int kernel_x,
                               const int in_c, const int in_y, const int out_c) {
  const float_end end = FLOAT_END_NONE;
  micro_conv(in, w, bias, 0, out, NB, channels, 0, kernel_y, kernel_x, in_c, in_y, PX, S * PX, out_c, 0, 1, 0, 0, 0, &end, 0,
             w, 0);
}
#endif
