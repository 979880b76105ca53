// Register blocks of a convolution of bytes: each NB blocks of 16 output channels by UR neighbouring pixels of one row.
//
//   sum[b][i][o] = start[b][o] + sum over c, ky, kx of in[c][ky][i S + kx] w[c / n][ky][kx][b][o][c % n], exact in int
//   v = sum * scale[b][o] + bias[b][o]
//
// Instance: NB, UR; S the horizontal stride (0: a run-time one, `stride`). AVX-512 holds NB * UR <= 28 accumulators.
//
// ip, wp       the window of the first pixel; weights, whose channels that are missing are zeros: words of n channels,
//              bytes, BLOCK_WORDS of a block of a pixel
// scales       numbers of each channel, BLOCK_SCALES a block: see write_scales
// ahead, fetched   the cache line at `ahead` is prefetched for each word of four bytes, `fetched` bytes further on
// list, plain  all words in an order, and how many of them are no pairs of 16 bits behind (list_words of saturating.clh);
//              0: as they stand
// more         what the sum of each pixel begins with beside `start`;  0: nothing
// count, beside   register blocks, and pixels from one to the next
// blocks       of the NB those that there are; nothing is read or written for the others but their weights
// words        of a pixel of all input channels;  kernel_y, kernel_x: of the window
// in_c, in_y, in_x   bytes from one block of channels, window row, window column of the input to the next
// stride       bytes from one pixel's window to the next, read where S is 0
// mode         what is written to op, elements of `out_c` from one block, `out_x` from one pixel to the next:
//              0: floats, v;  1: bytes, nearest(v / first) + zero;
//              2: bytes, nearest(w) + zero;  3: floats, w = t, or where `again` is not 0 or there are bytes to add,
//                 t * second + (r - shift) * third, of bytes divided by `step`, every operation rounded, where
//                 u = v / first, with `within` not 0 min(max(rounded(u), floor), floor + 255);
//                 t = u * by[o] * middle + plus[o] * adding, with `again` not 0
//                 min(max(rounded(t), bottom), bottom + 255), and with `after` not 0 w = t * by_after[o] * later +
//                 plus_after[o] * ending; with `joint` not 0, nearest(w) is of fma(a, second, fma(b, third, shift)) of
//                 a = t - bottom - zero and b = r - zero, and with 2 of fma(b, third, fma(a, second, shift)); floats are
//                 (nearest - ending) * step; with `finished` not 0 floats of added bytes are rounded to 8 bits of `step` from step
//                 `ending` on, with `joint` not 0 from -ending - zero on;
//              4: nothing, the extremes of the sums are kept in `scales`;  5: bytes, nearest(w / step) + zero, of floats of 3
//                 without a second rounding and bytes, a product with by and the sum with plus rounded one after the other;
//                 with `joint` not 0 the parts of 1 / step are third and shift;  6: the sums, ints
//                 r: bytes of res, `res_c`, `res_x` apart; 0: none
// by, plus, by_after, plus_after   numbers of each channel in `scales`; with `single` not 0 by is one number,
//              and its product is rounded before plus is added
// bounded, least, most   not 0: floats of modes 3 and 5 without a second rounding and bytes are between these two, NaN stays
// lined        not 0: floats of mode 3 without roundings, bytes and bounds become slope v + offset, with 2 this times
//              min(max(gate v + gate_from, 0), 1), and that factor v + summand
// noting       1: the extremes of mode 3 are kept in `scales`, too;  2: the caller keeps them, behind its list
// low, high    bounds of the bytes, each four times
//
// Bytes: the sum is exact, what they are of differs from v by the roundings of its float operations, 2^-24 each.
#include "bytes.clh"
#include "saturating.clh"

#ifndef NB
  #define NB 2
#endif
#ifndef UR
  #define UR 14
#endif
#ifndef S
  #define S 1
#endif
#define PIXEL(i) (S ? (i) * S * 4 * BLOCK_WORDS : (i) * stride)

// One word of every pixel at p, by the weights at q.
#define ADD_WORDS(p, q)                                                                       \
  do {                                                                                        \
    int16 w[NB];                                                                              \
    _Pragma("unroll") for (int b = 0; b < NB; b++) w[b] = *(__global const int16*)((q) + b * 64); \
    _Pragma("unroll") for (int i = 0; i < UR; i++) {                                          \
      const int16 v = (int16)(*(__global const int*)((p) + PIXEL(i)));                        \
      _Pragma("unroll") for (int b = 0; b < NB; b++) acc[b][i] = add_words(acc[b][i], v, w[b]); \
    }                                                                                         \
  } while (0)

#ifdef SATURATING
// The same by weights of 16 bits: the even bytes, then the odd ones.
  #define ADD_HALVES(p, q)                                                                      \
    _Pragma("unroll") for (int part = 0; part < 2; part++) {                                    \
      int16 w[NB];                                                                              \
      _Pragma("unroll") for (int b = 0; b < NB; b++) {                                          \
        const int16 words = *(__global const int16*)((q) + b * 64);                             \
        w[b] = part ? odd_weights(words) : even_weights(words);                                 \
      }                                                                                         \
      _Pragma("unroll") for (int i = 0; i < UR; i++) {                                          \
        const int16 v = (int16)(*(__global const int*)((p) + PIXEL(i)));                        \
        const int16 u = part ? odd_bytes(v) : even_bytes(v);                                    \
        _Pragma("unroll") for (int b = 0; b < NB; b++) acc[b][i] = add_shorts(acc[b][i], u, w[b]); \
      }                                                                                         \
    }
#endif

NOINLINE static void micro_bytes(__global const uchar* restrict ip, __global const char* restrict wp,
                                 __global const int* restrict start, __global const float* restrict scales,
                                 __global const uchar* restrict res, __global uchar* restrict op, const int blocks, const int words, const int kernel_y,
                                 const int kernel_x, const int in_c, const int in_y, const int in_x, const int stride,
                                 const int out_c, const int out_x, const int res_c, const int res_x, const int mode,
                                 __global const byte_end* end, __global const char* ahead, const int fetched,
                                 __global const int2* list, const int plain, __global const int* more, int count,
                                 const int beside) {
  const long size = mode == 0 || mode == 3 || mode == 6 ? 4 : 1;
  for (; count > 0; count--, ip += (long)beside * stride, op += beside * out_x * size, res += res ? beside * res_x : 0,
                    more += more ? beside : 0) {
    int16 acc[NB][UR];
    #pragma unroll
    for (int b = 0; b < NB; b++) {
      const int16 first = b < blocks ? *(__global const int16*)(start + b * 16) : (int16)(0);
      #pragma unroll
      for (int i = 0; i < UR; i++) acc[b][i] = more ? first + (int16)(more[i]) : first;
    }
    // Innermost go the words of a row of the window, or where it is one element those of a block of channels, of a pixel that
    // has its channels side by side all: what else a step takes delays its products.
    const int single = kernel_y * kernel_x == 1, run = !single ? kernel_x : in_c == 16 ? words : BLOCK_WORDS;
    const int further = single ? 4 : in_x;
#ifdef SATURATING
    const int steps = list ? words * kernel_y * kernel_x : 0;
    for (int k = 0; k < (list ? plain : 0); k++) {
      FETCH(ahead);
      ADD_WORDS(ip + list[k].y, wp + (long)list[k].x * (NB * 64));
      ahead += fetched;
    }
    for (int k = plain; k < steps; k++) {
      FETCH(ahead);
      ADD_HALVES(ip + list[k].y, wp + (long)list[k].x * (NB * 64));
      ahead += fetched;
    }
#endif
    __global const char* weights = wp;
    for (int c = 0; c < (list ? 0 : words); c += single ? run : 1) {
      __global const uchar* row = ip + (long)(c / BLOCK_WORDS) * in_c + (c % BLOCK_WORDS) * 4;
      for (int ky = 0; ky < kernel_y; ky++, row += in_y) {
        __global const uchar* at = row;
        #pragma unroll 1
        for (int k = single ? min(run, words - c) : run; k > 0; k--) {
          FETCH(ahead);
          ADD_WORDS(at, weights);
          at += further;
          weights += NB * 64;
          ahead += fetched;
        }
      }
    }
    #pragma unroll
    for (int b = 0; b < NB; b++) {
      if (b && b >= blocks) break;
      if (mode == 6) {
        #pragma unroll
        for (int i = 0; i < UR; i++) *(__global loose_int16*)((__global int*)op + b * out_c + i * out_x) = acc[b][i];
        continue;
      }
      if (mode == 1) {
        const float16 factor = LOAD16(scales + b * BLOCK_SCALES + FACTOR_AT), first = LOAD16(scales + b * BLOCK_SCALES + SUMMAND_AT);
        #pragma unroll
        for (int i = 0; i < UR; i += 4) {
          int16 q[4] = {0, 0, 0, 0};
          #pragma unroll
          for (int j = 0; j < 4; j++)
            if (i + j < UR) q[j] = nearest_ints(bounded_floats(fma(whole_floats(acc[b][i + j]), factor, first)));
          store_bytes(op + b * out_c + i * out_x, bytes_of(q[0], q[1], q[2], q[3], end->zero, end->low, end->high), UR - i,
                      out_x);
        }
        continue;
      }
      if (mode == 4) {
        int16 most = acc[b][0], least = acc[b][0];
        #pragma unroll
        for (int i = 1; i < UR; i++) {
          most = acc[b][i] > most ? acc[b][i] : most;
          least = acc[b][i] < least ? acc[b][i] : least;
        }
        keep_sums(most, least, scales + b * BLOCK_SCALES);
        continue;
      }
      if (mode == 5 && end->joint) {
        __global const float* numbers = scales + b * BLOCK_SCALES;
        const float16 factor = LOAD16(numbers + FACTOR_AT), first = LOAD16(numbers + SUMMAND_AT);
        const float16 times = LOAD16(numbers + TIMES_AT), more = LOAD16(numbers + MORE_AT);
        const float16 third = (float16)(end->third), shift = (float16)(end->shift);
        #pragma unroll
        for (int i = 0; i < UR; i += 4) {
          int16 q[4] = {0, 0, 0, 0};
          #pragma unroll
          for (int j = 0; j < 4; j++)
            if (i + j < UR) q[j] = COMPUTED_STEPS(acc[b][i + j]);
          store_bytes(op + b * out_c + i * out_x, bytes_of(q[0], q[1], q[2], q[3], end->zero, end->low, end->high), UR - i,
                      out_x);
        }
        continue;
      }
      // An array whose address is taken lies in memory: not that of the loop.
      int16 sums[UR];
      #pragma unroll
      for (int i = 0; i < UR; i++) sums[i] = acc[b][i];
      write_sums(sums, UR, scales + b * BLOCK_SCALES, res ? res + (long)b * res_c : 0, res_x, op + b * out_c * size, out_x, mode,
                 end);
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_bytes_alone(__global const uchar* in, __global const char* w, __global const int* start,
                                __global const float* scales, __global uchar* out, __global const byte_end* end) {
  micro_bytes(in, w, start, scales, 0, out, NB, BLOCK_WORDS, 3, 3, 2048, 1024, 4 * BLOCK_WORDS, S * 4 * BLOCK_WORDS, 1024, 16,
              0, 16, 1, end, w, 0, 0, 0, 0, 1, 0);
}
#endif
