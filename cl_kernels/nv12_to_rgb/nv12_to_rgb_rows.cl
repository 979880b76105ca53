// The red, green and blue of video frames, sixteen pixels of two rows at a time; all are bytes.
//
// A ticket is a strip of pairs of rows of one frame.
//
// luma, luma_n, chroma, chroma_n, out, out_n   the frames, and bytes from one to the next; rows are `width` bytes, of the
//                                              result three times as many
// pairs, width, strips, strip_pairs            of rows
// offset                                       of luma
// bright, red, green, green_cb, blue           2^20 times the factors of luma, of Cr in red, Cr and Cb in green, Cb in blue
//
// Exact.
#include "tile.clh"

typedef uchar16 __attribute__((aligned(1))) frame_bytes;
typedef uint4 __attribute__((aligned(1))) frame_words;

static uint16 nv12_bytes(const int16 sum) { return as_uint16(clamp(sum >> 20, 0, 255)); }

static uchar nv12_single(const int sum) { return (uchar)clamp(sum >> 20, 0, 255); }

static void nv12_to_rgb_rows(__global const nv12_to_rgb_rows_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, n = ticket / d->strips, width = d->width;
  const int end = min((strip + 1) * d->strip_pairs, d->pairs);
  for (int pair = strip * d->strip_pairs; pair < end; pair++) {
    __global const uchar* luma = AT(const uchar, banks, d->luma) + n * d->luma_n + (long)pair * 2 * width;
    __global const uchar* chroma = AT(const uchar, banks, d->chroma) + n * d->chroma_n + (long)pair * width;
    __global uchar* out = AT(uchar, banks, d->out) + n * d->out_n + (long)pair * 6 * width;
    int x = 0;
    for (; x + 16 <= width; x += 16) {
      const uchar16 both = *(__global const frame_bytes*)(chroma + x);
      const int16 cb = convert_int16(both.s0022446688aaccee) - 128, cr = convert_int16(both.s1133557799bbddff) - 128;
      const int16 red = d->red * cr + (1 << 19), blue = d->blue * cb + (1 << 19);
      const int16 green = (1 << 19) - d->green * cr - d->green_cb * cb;
      for (int row = 0; row < 2; row++) {
        const int16 pixel = convert_int16(*(__global const frame_bytes*)(luma + row * width + x));
        const int16 bright = max(pixel - d->offset, 0) * d->bright;
        // Twelve bytes of four pixels are three words: compilers make single bytes of vectors that take every third.
        const uint16 pixels = nv12_bytes(bright + red) | nv12_bytes(bright + green) << 8 | nv12_bytes(bright + blue) << 16;
        const uint4 u = pixels.s048c | pixels.s159d << 24;
        const uint4 v = pixels.s159d >> 8 | pixels.s26ae << 16, w = pixels.s26ae >> 16 | pixels.s37bf << 8;
        __global frame_words* to = (__global frame_words*)(out + 3 * (row * width + x));
        to[0] = (uint4)(u.x, v.x, w.x, u.y);
        to[1] = (uint4)(v.y, w.y, u.z, v.z);
        to[2] = (uint4)(w.z, u.w, v.w, w.w);
      }
    }
    for (; x < width; x++) {
      const int cb = chroma[x & ~1] - 128, cr = chroma[x | 1] - 128;
      for (int row = 0; row < 2; row++) {
        const int bright = max(luma[row * width + x] - d->offset, 0) * d->bright + (1 << 19);
        __global uchar* to = out + 3 * (row * width + x);
        to[0] = nv12_single(bright + d->red * cr);
        to[1] = nv12_single(bright - d->green * cr - d->green_cb * cb);
        to[2] = nv12_single(bright + d->blue * cb);
      }
    }
  }
}
