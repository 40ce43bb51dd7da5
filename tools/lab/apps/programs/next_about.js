export default function About() {
  return <h1>About this</h1>
}
