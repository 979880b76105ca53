// The nearest elements along two neighbouring axes of a dense plain tensor [planes][height][width][unit], of any type.
//
// Output element i of an axis is the one at (offset + (i + middle) * factor / divisor) - origin, in float, as in
// resize_fsv16.cl. A ticket is a run of rows of the result; one that shows the row of the input that the one before it
// shows is copied from that. Exact.
//
// inp, out                       dense;  itemsize: bytes of an element, which may stand for several neighbours
// in_height, in_width, height, width   of a plane of the input, of the result
// unit                           elements of a pixel;  whole: 1: they are copied as one run
// times                          2, 3, 4: every element of a row is there so many times; else they lie anywhere
// row_times                      so many rows show each row of the input; 0: any do
// rows, ticket_rows              of the result: in all, of a ticket
// rule, middle, origin, factor_y, divisor_y, offset_y, factor_x, divisor_x, offset_x   as in resize_fsv16.cl
//
// scratch: where each element of a row lies, or each pixel of `unit` elements that are copied as one; the row of the input
// that each row of a plane shows.
#include "interleave.clh"
#include "resize_taps.clh"

// y[i] = x[places[i]], which is x[i / times] for times of 2 to 4. Elements that are there twice are the halves of wider ones;
// of them rows of at least 16 are written again `twin` elements further.
#define NEAREST(T, W) \
  NOINLINE static void nearest_##T(__global const T* restrict x, __global T* restrict y, __global const int* restrict places, \
                                  const int times, const int n, const int twin) { \
    int i = 0; \
    /* The last vector overlaps the one before. */ \
    const int alike = times && n / times >= 16 ? n / times : 0; \
    for (int k = 0; k < alike; k += 16) { \
      i = min(k, alike - 16); \
      __global loose_##T* out = (__global loose_##T*)(y + i * times); \
      const T##16 v = *(__global const loose_##T*)(x + i); \
      if (times == 2) { \
        TWICE(T, W) \
      } else if (times == 3) { \
        out[0] = v.s0001112223334445, out[1] = v.s55666777888999aa, out[2] = v.sabbbcccdddeeefff; \
      } else { \
        out[0] = v.s0000111122223333, out[1] = v.s4444555566667777; \
        out[2] = v.s88889999aaaabbbb, out[3] = v.sccccddddeeeeffff; \
      } \
    } \
    i = alike * times; \
    for (; i + 16 <= n; i += 16) { \
      const uint16 p = *(__global const loose_uint*)(places + i); \
      *(__global loose_##T*)(y + i) = \
          (T##16)(x[p.s0], x[p.s1], x[p.s2], x[p.s3], x[p.s4], x[p.s5], x[p.s6], x[p.s7], x[p.s8], x[p.s9], x[p.sa], x[p.sb], \
                  x[p.sc], x[p.sd], x[p.se], x[p.sf]); \
    } \
    for (; i < n; i++) y[i] = x[places[i]]; \
  }
#define TWICE(T, W) \
  const W##16 wide = convert_##W##16(v); \
  const W##16 both = wide | wide << 8 * (int)sizeof(T); \
  *(__global loose_##W*)out = both; \
  *(__global loose_##W*)((__global T*)out + twin) = both;
NEAREST(uchar, ushort)
NEAREST(ushort, uint)
NEAREST(uint, ulong)
#undef TWICE
#define TWICE(T, W) \
  __global loose_##T* also = (__global loose_##T*)((__global T*)out + twin); \
  out[0] = also[0] = v.s0011223344556677, out[1] = also[1] = v.s8899aabbccddeeff;
NEAREST(ulong, ulong)
#undef TWICE

typedef uint16 __attribute__((aligned(1))) loose_bytes;

NOINLINE static void copied_run(__global const char* from, __global char* to, const int bytes) {
  int i = 0;
  for (; i + 64 <= bytes; i += 64) *(__global loose_bytes*)(to + i) = *(__global const loose_bytes*)(from + i);
  for (; i + 16 <= bytes; i += 16) *(__global loose_uchar*)(to + i) = *(__global const loose_uchar*)(from + i);
  if (i && i < bytes) *(__global loose_uchar*)(to + bytes - 16) = *(__global const loose_uchar*)(from + bytes - 16);
  else
    for (; i < bytes; i++) to[i] = from[i];
}

static void resize_nearest(__global const resize_nearest_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), unit = d->unit, each = d->whole ? 1 : unit;
  const int itemsize = d->itemsize, bytes = d->width * unit * itemsize, wide = d->width * each;
  __global int* places = (__global int*)scratch;
  const int looked_up = !d->times || wide < 16 * d->times;
  for (int x = 0; looked_up && x < d->width; x++) {
    const float at = (d->offset_x + (x + d->middle) * d->factor_x / d->divisor_x) - d->origin;
    const int place = resize_taps(at, 0, d->rule, d->in_width).x * each;
    for (int e = 0; e < each; e++) places[x * each + e] = place + e;
  }
  __global int* shown = places + wide;
  const int first = ticket * d->ticket_rows;
  int plane = first / d->height, y = first - plane * d->height;
  for (int i = 0; !d->row_times && i < min(d->height, last - first); i++) {
    const int of = y + i < d->height ? y + i : y + i - d->height;
    const float at = (d->offset_y + (of + d->middle) * d->factor_y / d->divisor_y) - d->origin;
    shown[of] = resize_taps(at, 0, d->rule, d->in_height).x;
  }
  // Of rows that are there as often each, the row of the input, and how often it is there still.
  const int row_times = d->row_times;
  int in_y = row_times ? y / row_times : 0, left = row_times - (y - in_y * row_times), held = -1, written = 0;
  for (int r = first; r < last; r++) {
    const int row = plane * d->in_height + (row_times ? in_y : shown[y]), twins = d->times == 2 && wide >= 32 && left > 1;
    const int twin = twins && r + 1 < last ? wide : 0;
    if (--left == 0) in_y++, left = row_times;
    if (++y == d->height) y = in_y = 0, plane++;
    __global const char* from = AT(const char, banks, d->inp) + (long)row * d->in_width * unit * itemsize;
    __global char* to = AT(char, banks, d->out) + (long)r * bytes;
    if (r < written)
      continue;
    else if (row == held)
      copied_run(to - bytes, to, bytes);
    else if (d->whole)
      for (int x = 0; x < d->width; x++)
        copied_run(from + places[x] * unit * itemsize, to + x * unit * itemsize, unit * itemsize);
    else if (itemsize == 4)
      nearest_uint((__global const uint*)from, (__global uint*)to, places, d->times, wide, twin);
    else if (itemsize == 2)
      nearest_ushort((__global const ushort*)from, (__global ushort*)to, places, d->times, wide, twin);
    else if (itemsize == 1)
      nearest_uchar((__global const uchar*)from, (__global uchar*)to, places, d->times, wide, twin);
    else
      nearest_ulong((__global const ulong*)from, (__global ulong*)to, places, d->times, wide, twin);
    held = row;
    written = r + 1 + (twin && !d->whole);
  }
}
